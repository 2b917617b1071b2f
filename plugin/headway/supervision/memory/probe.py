"""Readings of memory in use and of GPU utilisation.

The resident memory of the server and its engine processes comes from psutil, GPU memory from NVML. A machine without a
GPU has no GPU figures; they are never reported as zero.
"""

from __future__ import annotations

import importlib
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from headway.supervision.memory.processes import (
    MachineUse,
    ProcessorUse,
    all_pids,
    memory_usage_ratio,
    read_processes,
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU's memory in bytes, and the share of the last moment in which it computed; None where unknown."""

    gpu: str
    used_bytes: int
    total_bytes: int
    busy_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The resident bytes of the server and of its engine's processes, and the GPU ratios, None without a GPU.

    ``gpu_usage_ratio`` is the memory in use of the fullest GPU of this server, ``gpu_busy_ratio`` the share of time in
    which its busiest GPU computed, ``host_usage_ratio`` that of ``memory_usage_ratio``. ``machine`` is the use of the
    machine's processors.
    """

    server_bytes: int
    engine_bytes: int
    gpu_usage_ratio: float | None
    gpu_busy_ratio: float | None = None
    machine: MachineUse = field(default_factory=MachineUse)
    host_usage_ratio: float = 0.0


class Gpus:
    """The GPUs that NVML sees, or none. A card that stops answering is left out of the reading."""

    def __init__(self) -> None:
        self._own: set[str] = set()
        self._nvml: Any = None
        self._handles: list[Any] = []
        try:
            self._nvml = importlib.import_module("pynvml")
            self._nvml.nvmlInit()
            count = self._nvml.nvmlDeviceGetCount()
            self._handles = [self._nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        except Exception:  # no library, no driver or no permission: all mean that there is nothing to read
            self._handles = []

    def read(self) -> list[Gpu]:
        """The present figures of each GPU."""
        found = []
        for index, handle in enumerate(self._handles):
            try:
                memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
            except self._nvml.NVMLError:
                continue
            found.append(Gpu(str(index), int(memory.used), int(memory.total), self._busy_ratio(handle)))
        return found

    def read_of(self, pids: Set[int]) -> list[Gpu]:
        """The figures of the cards on which these processes compute. Where none of them computes, as between two
        engines, of the cards that were found the last time; of all cards where none was found yet.

        In a container NVML may have other process numbers than the container: then none is found.
        """
        cards = self.read()
        self._own = {card.gpu for card in cards if self._pids(card) & pids} or self._own
        return [card for card in cards if card.gpu in self._own] or cards

    def _pids(self, card: Gpu) -> set[int]:
        """The processes that compute on a card."""
        handle = self._handles[int(card.gpu)]
        try:
            return {int(process.pid) for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        except self._nvml.NVMLError:
            return set()

    def _busy_ratio(self, handle: Any) -> float | None:
        """The ratio over the last sample period of the driver, a sixth of a second to a second long."""
        try:
            return float(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100
        except self._nvml.NVMLError:  # a slice of a card (MIG) has no such figure
            return None


class MemoryProbe:
    """A reader of all figures at once; without ``gpus`` it reads no GPU, for these are another server's then.

    Some of the reading is slow: call it on a thread; the first call also finds the GPUs.
    """

    def __init__(self, *, gpus: bool = True) -> None:
        self._wants_gpus = gpus
        self._gpus: Gpus | None = None
        self._processors = ProcessorUse()

    def __call__(self) -> MemoryUse:
        """Read all figures."""
        if self._wants_gpus and self._gpus is None:
            self._gpus = Gpus()
        processes = read_processes()
        cards = [] if self._gpus is None else self._gpus.read_of(all_pids(processes))
        used = [card.used_bytes / card.total_bytes for card in cards if card.total_bytes]
        busy = [card.busy_ratio for card in cards if card.busy_ratio is not None]
        server_bytes, engine_bytes = processes["api_server"].resident_bytes, processes["engine"].resident_bytes
        return MemoryUse(
            server_bytes,
            engine_bytes,
            max(used, default=None),
            max(busy, default=None),
            self._processors.machine(processes),
            memory_usage_ratio(server_bytes + engine_bytes),
        )
