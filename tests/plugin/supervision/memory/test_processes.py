"""Processes of the server: their memory, their shares of the processors, and the limit of memory."""

from __future__ import annotations

import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.control_groups import memory_limit
from headway.supervision.memory import processes
from headway.supervision.memory.processes import (
    MachineUse,
    ProcessorUse,
    ProcessReading,
    memory_limit_bytes,
    memory_usage_ratio,
    read_processes,
)

Times = namedtuple("Times", ("user", "system", "idle"))


class Machine:
    """Two processors of a machine with four, and a clock, both moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.server_s = self.engine_s = self.busy_s = 0.0
        monkeypatch.setattr(processes, "read_processes", self.readings)
        monkeypatch.setattr(processes, "_allowed", lambda: 2.0)
        monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
        monkeypatch.setattr(psutil, "cpu_times", lambda: Times(self.busy_s, 0.0, 7.0))

    def readings(self) -> dict[str, ProcessReading]:
        """What the processes have used."""
        return {"api_server": ProcessReading(1, self.server_s), "engine": ProcessReading(2, self.engine_s)}

    def run(self, passed_s: float, server_s: float, engine_s: float, busy_s: float) -> None:
        """Let time pass."""
        self.now_s += passed_s
        self.server_s, self.engine_s, self.busy_s = (
            self.server_s + server_s,
            self.engine_s + engine_s,
            self.busy_s + busy_s,
        )


def test_shares_are_of_the_processors_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's share is by its own two, that of the machine by all four; none in the first second."""
    machine = Machine(monkeypatch)
    use = ProcessorUse(lambda: machine.now_s)
    machine.run(0.5, 0.1, 0.4, 1.0)
    assert use.read(machine.readings()) == {}
    machine.run(1.5, 0.3, 1.6, 3.0)
    assert use.read(machine.readings()) == pytest.approx({"api_server": 0.1, "engine": 0.5, "machine": 0.5})
    machine.run(0.2, 0.2, 0.2, 0.8)
    assert use.read(machine.readings()) == pytest.approx({"api_server": 0.1, "engine": 0.5, "machine": 0.5})
    machine.run(1.8, 0.2, -1.0, 0.0)  # the engine was replaced: its time is gone with it
    assert use.read(machine.readings()) == pytest.approx({"api_server": 0.1, "engine": 0.0, "machine": 0.1})


def test_the_use_of_the_machine_tells_this_server_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are of all four processors; unknown in the first second."""
    machine = Machine(monkeypatch)
    use = ProcessorUse(lambda: machine.now_s)
    assert use.machine(machine.readings()) == MachineUse()
    machine.run(2.0, 0.2, 1.8, 8.0)
    found = use.machine(machine.readings())
    assert (found.busy_ratio, found.own_ratio) == pytest.approx((1.0, 0.25))


@given(st.lists(st.tuples(st.floats(0, 9), *[st.floats(-5, 50)] * 3), max_size=6))
def test_a_share_is_never_outside_0_to_1(steps: list[tuple[float, float, float, float]]) -> None:
    """Whatever clocks and counters say."""
    with pytest.MonkeyPatch.context() as patch:
        machine = Machine(patch)
        use = ProcessorUse(lambda: machine.now_s)
        for step in steps:
            machine.run(*step)
            assert all(0 <= share <= 1 for share in use.read(machine.readings()).values())


def test_a_child_counts_as_the_engine() -> None:
    """Its memory is there while it runs."""
    before = read_processes()
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        now = read_processes()
        assert now["api_server"].resident_bytes > 1_000_000
        assert now["engine"].resident_bytes > before["engine"].resident_bytes
        assert now["api_server"].processor_s >= before["api_server"].processor_s > 0
    finally:
        child.kill()
        child.communicate()


def test_the_limit_of_memory_is_that_of_the_smallest_group(tmp_path: Path) -> None:
    """A group above may allow less; without any the machine's memory is the limit."""
    assert memory_limit(tmp_path) is None
    group = tmp_path / "sys/fs/cgroup/outer/inner"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/outer/inner\n")
    (group / "memory.max").write_text("3000\n")
    assert memory_limit(tmp_path) == 3000
    (group.parent / "memory.max").write_text("2000\n")
    assert memory_limit(tmp_path) == 2000
    (group / "memory.max").write_text("max\n")
    assert memory_limit(tmp_path) == 2000
    assert 0 < memory_limit_bytes() <= psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, 0.75), (2000, 0.75), (800, 0.5), (200, 1.0)], ids=["none", "above", "own", "passed"]
)
def test_the_memory_in_use_is_of_the_own_limit_or_of_the_machine(
    limit: int | None, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the machine what is not available: caches of files are."""
    monkeypatch.setattr(processes, "memory_limit", lambda: limit)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=1000, available=250))
    assert memory_usage_ratio(400) == expected
