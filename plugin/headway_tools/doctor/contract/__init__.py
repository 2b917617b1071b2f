"""The contract with vLLM: the names of vLLM that Headway uses or replaces, and the releases that have them.

vllm.toml  the names; ``deploy/contract.py`` writes it from the adapter's code
names      the file read, and its names looked up in a release
source     vLLM's source, read and not imported
"""

from headway_tools.doctor.contract.names import Break, Contract, Name, breaks
from headway_tools.doctor.contract.source import VllmSource

__all__ = ["Break", "Contract", "Name", "VllmSource", "breaks"]
