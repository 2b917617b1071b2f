"""``headway doctor``: checks of the configuration, the machine and a running server, each with its remedy.

    configuration  what a server would refuse to start with or warn of (``headway.checks``), and its presets
    engine_flags   what makes the engine smaller or slower than vLLM's own choices, with its price
    machine        cores, memory, KV space, GPU, disk and port
    versions       Python, Headway, vLLM, and the packages of the dashboard
    contract       the names of vLLM that Headway uses, and those that an installed one lacks
    server         what a running server answers to a client without a key

A check is a function that yields findings; none of them changes anything.
"""

from headway_tools.doctor.configuration import check_configuration
from headway_tools.doctor.machine import check_machine
from headway_tools.doctor.server import check_server
from headway_tools.doctor.versions import check_versions

__all__ = ["check_configuration", "check_machine", "check_server", "check_versions"]
