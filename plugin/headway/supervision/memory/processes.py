"""The processes of this server: their memory, and their share of the processors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil

from headway.control_groups import cpu_quota, memory_limit

#: A share over less time than this says nothing: processor time is counted in hundredths of a second.
_LEAST_S = 1.0


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """The use of some processes: memory, and the processor time of all of them since they began; and their numbers."""

    resident_bytes: int = 0
    processor_s: float = 0.0
    pids: frozenset[int] = frozenset()


def read_processes() -> dict[str, ProcessReading]:
    """The use of this process ("api_server"), and of all its descendants together ("engine")."""
    here = psutil.Process(os.getpid())
    engine_bytes, engine_s, pids = 0, 0.0, set[int]()
    for child in here.children(recursive=True):
        try:
            reading = _read(child)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        engine_bytes, engine_s = engine_bytes + reading.resident_bytes, engine_s + reading.processor_s
        pids |= reading.pids
    return {"api_server": _read(here), "engine": ProcessReading(engine_bytes, engine_s, frozenset(pids))}


def all_pids(processes: Mapping[str, ProcessReading]) -> frozenset[int]:
    """The numbers of all processes that were read."""
    return frozenset[int]().union(*(reading.pids for reading in processes.values()))


def memory_limit_bytes() -> int:
    """The memory that this server may use: of its control group, else of the machine."""
    total: int = psutil.virtual_memory().total
    limit = memory_limit()
    return total if limit is None else min(limit, total)


def memory_usage_ratio(own_bytes: int) -> float:
    """The share in use of the memory that this server may use: by its own processes, or by all on the machine where its
    control group has no smaller limit.
    """
    machine, limit = psutil.virtual_memory(), memory_limit_bytes()
    used_bytes = own_bytes if limit < machine.total else machine.total - machine.available
    return min(1.0, used_bytes / limit)


@dataclass(frozen=True, slots=True)
class MachineUse:
    """The shares of the processors in use, by all and by this server with its engine; None: not known."""

    busy_ratio: float | None = None
    own_ratio: float | None = None


class ProcessorUse:
    """The shares of processor time: of the server's processes in what it may use, of the whole "machine" in all.

    Each share is over the time since a reading at least a second before. A process that ends takes its time with it:
    its share counts as 0 then, never as less.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._at_s, self._used_s = clock_s(), self._read(read_processes())
        self._shares: dict[str, float] = {}

    def read(self, processes: Mapping[str, ProcessReading]) -> Mapping[str, float]:
        """The shares, 0 to 1; empty in the first second. ``processes`` are read just before."""
        now_s = self._clock_s()
        passed_s = now_s - self._at_s
        if passed_s >= _LEAST_S:
            used_s = self._read(processes)
            before_s, self._at_s, self._used_s = self._used_s, now_s, used_s
            allowed_s = {name: passed_s * _allowed() for name in processes} | {"machine": passed_s * _all()}
            spent_s = {name: used_s[name] - before_s.get(name, 0.0) for name in used_s}
            self._shares = {name: min(1.0, max(0.0, spent_s[name] / allowed_s[name])) for name in used_s}
        return self._shares

    def machine(self, processes: Mapping[str, ProcessReading]) -> MachineUse:
        """The use of all processors of the machine."""
        shares = self.read(processes)
        own = sum(shares.get(name, 0.0) for name in processes) * _allowed() / _all()
        return MachineUse(shares["machine"], min(own, shares["machine"])) if shares else MachineUse()

    @staticmethod
    def _read(processes: Mapping[str, ProcessReading]) -> dict[str, float]:
        times = psutil.cpu_times()
        idle_s = times.idle + getattr(times, "iowait", 0.0)
        guest_s = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # counted in user time as well
        return {name: reading.processor_s for name, reading in processes.items()} | {
            "machine": sum(times) - idle_s - guest_s
        }


def _read(process: psutil.Process) -> ProcessReading:
    with process.oneshot():
        times = process.cpu_times()
        return ProcessReading(process.memory_info().rss, times.user + times.system, frozenset((process.pid,)))


def _allowed() -> float:
    """The number of processors that this server may use."""
    return min(float(len(os.sched_getaffinity(0))), cpu_quota())


def _all() -> int:
    return psutil.cpu_count() or 1
