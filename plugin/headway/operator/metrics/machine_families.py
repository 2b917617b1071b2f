"""The machine as metric families: memory and processor time of the server's processes, and the GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric

from headway.operator.metrics.table import by_label, one_gauge
from headway.supervision import Gpu, Gpus, ProcessorUse, all_pids, memory_limit_bytes, read_processes


def machine_families(processors: ProcessorUse, gpus: Gpus | None) -> Iterator[Metric]:
    """A reading. Unknown figures, of a GPU above all, are absent and not 0; so is a GPU of another program."""
    processes = read_processes()
    resident = {name: process.resident_bytes for name, process in processes.items()}
    yield by_label("headway_process_resident_bytes", "process", resident)
    yield one_gauge("headway_memory_limit_bytes", memory_limit_bytes())
    yield by_label("headway_processor_busy_ratio", "process", processors.read(processes))
    if gpus is not None:
        yield from _gpus(gpus.read_of(all_pids(processes)))


def _gpus(cards: Sequence[Gpu]) -> Iterator[Metric]:
    if not cards:
        return
    yield by_label("headway_gpu_memory_used_bytes", "gpu", {card.gpu: card.used_bytes for card in cards})
    yield by_label("headway_gpu_memory_total_bytes", "gpu", {card.gpu: card.total_bytes for card in cards})
    busy = {card.gpu: card.busy_ratio for card in cards if card.busy_ratio is not None}
    yield by_label("headway_gpu_busy_ratio", "gpu", busy)
