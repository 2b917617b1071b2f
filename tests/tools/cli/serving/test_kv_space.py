"""The memory that ``headway serve`` leaves to vLLM's own choice, and the part that it chooses elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway_tools.cli.serving.cpu_start import choose
from headway_tools.cli.serving.kv_space import SPACE, vllms_own_fits
from headway_tools.console import Machine

GIB = 2**30
FRONT_END = 2 * GIB
#: 64 GiB, of which vLLM takes 58.9.
IDLE = Machine(cores=(0, 1), cpus=2.0, node_bytes=(63 * GIB,), group_bytes=None, compiles=True, node_sizes=(64 * GIB,))


@pytest.mark.parametrize(
    ("machine", "workers", "fits"),
    [
        pytest.param(IDLE, 1, True, id="idle"),
        pytest.param(replace(IDLE, node_bytes=(60 * GIB,)), 1, False, id="no room for the front end"),
        pytest.param(replace(IDLE, node_bytes=(30 * GIB,)), 1, False, id="in use"),
        pytest.param(replace(IDLE, node_sizes=()), 1, False, id="a size that is not known"),
        pytest.param(IDLE, 2, False, id="two workers on one node"),
        pytest.param(replace(IDLE, node_bytes=(63 * GIB,) * 2, node_sizes=(64 * GIB,) * 2), 2, True, id="two nodes"),
        pytest.param(
            replace(IDLE, node_bytes=(63 * GIB, 9 * GIB), node_sizes=(64 * GIB,) * 2), 2, False, id="one node in use"
        ),
        pytest.param(replace(IDLE, group_bytes=40 * GIB), 1, False, id="a limit that vLLM does not see"),
        pytest.param(replace(IDLE, group_bytes=40 * GIB, node_sizes=(40 * GIB,)), 1, True, id="a limit that vLLM sees"),
    ],
)
def test_vllms_own_choice_stays_where_it_starts(machine: Machine, workers: int, fits: bool) -> None:
    """A smaller cache would hold fewer sequences; a larger one than there is room for ends with an error."""
    assert vllms_own_fits(machine, workers, FRONT_END) is fits
    words = ["m", "-tp", str(workers)]
    assert (SPACE not in choose(machine, words, "", {}).environment) is fits


def test_a_quick_start_takes_half_of_what_is_left() -> None:
    """Of 63 GiB 3 are for vLLM's processes: filling all of it would take longer than the rest of the start."""
    assert choose(IDLE, ["m"], "", {}, quick=True).environment == {SPACE: "30"}
    assert choose(IDLE, ["m"], "", {SPACE: "2"}, quick=True).environment == {}
