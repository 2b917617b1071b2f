"""The machine as metric families: memory and processor time of the server's processes, and the GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric

from headway.operator.metrics.table import gauge, one_gauge
from headway.supervision import Gpu, Gpus, ProcessorUse, all_pids, memory_limit_bytes, read_processes


def machine_families(processors: ProcessorUse, gpus: Gpus | None) -> Iterator[Metric]:
    """A reading. Unknown figures, of a GPU above all, are absent and not 0; so is a GPU of another program."""
    processes = read_processes()
    resident = gauge("headway_process_resident_bytes", "process")
    for name, process in processes.items():
        resident.add_metric([name], process.resident_bytes)
    yield resident
    yield one_gauge("headway_memory_limit_bytes", memory_limit_bytes())
    busy = gauge("headway_processor_busy_ratio", "process")
    for name, ratio in processors.read(processes).items():
        busy.add_metric([name], ratio)
    yield busy
    if gpus is not None:
        yield from _gpus(gpus.read_of(all_pids(processes)))


def _gpus(cards: Sequence[Gpu]) -> Iterator[Metric]:
    if not cards:
        return
    used = gauge("headway_gpu_memory_used_bytes", "gpu")
    total = gauge("headway_gpu_memory_total_bytes", "gpu")
    busy = gauge("headway_gpu_busy_ratio", "gpu")
    for card in cards:
        used.add_metric([card.gpu], card.used_bytes)
        total.add_metric([card.gpu], card.total_bytes)
        if card.busy_ratio is not None:
            busy.add_metric([card.gpu], card.busy_ratio)
    yield from (used, total, busy)
