"""The memory probe: the sizes of processes, and the cards that an engine computes on."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from headway.operator.metrics.machine_families import machine_families
from headway.supervision import ProcessorUse
from headway.supervision.memory import probe as memory_probe
from headway.supervision.memory.probe import MemoryProbe


def test_the_probe_reads_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own size, its children's, and the fullest card where there are any."""
    probe = MemoryProbe()
    assert probe().server_bytes > 10_000_000
    assert 0 < probe().host_usage_ratio <= 1
    cards = [
        memory_probe.Gpu("0", 10, 100, 0.9),
        memory_probe.Gpu("1", 30, 100),
    ]
    monkeypatch.setattr(probe._gpus, "read_of", lambda pids: cards)
    assert (probe().gpu_usage_ratio, probe().gpu_busy_ratio) == (0.3, 0.9)
    monkeypatch.setattr(probe._gpus, "read_of", lambda pids: [])
    assert probe().gpu_usage_ratio is probe().gpu_busy_ratio is None


class Driver:
    """NVML's readings: a card, and a slice of one that does not report its utilisation."""

    class NVMLError(Exception):
        """As in pynvml."""

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name, and so are those below
        """Nothing to do."""

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        """Two."""
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        """The index will do."""
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        """The same for both."""
        return SimpleNamespace(used=30, total=100)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802
        """One on the first card; of the second it does not say."""
        if handle:
            raise self.NVMLError("not permitted")
        return [SimpleNamespace(pid=700, usedGpuMemory=None)]

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:  # noqa: N802
        """For the whole card only."""
        if handle:
            raise self.NVMLError("not supported")
        return SimpleNamespace(gpu=87, memory=40)


def test_a_card_that_does_not_say_how_busy_it_is_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory counts; its utilisation is absent, not 0."""
    monkeypatch.setitem(sys.modules, "pynvml", Driver())  # type: ignore[arg-type]  # all that is asked of it
    cards = memory_probe.Gpus().read()
    assert [(card.gpu, card.used_bytes, card.busy_ratio) for card in cards] == [("0", 30, 0.87), ("1", 30, None)]


@pytest.mark.parametrize(("pids", "cards"), [({700, 701}, ["0"]), ({900}, ["0", "1"])], ids=["its own", "unknown"])
def test_the_cards_of_an_engine_are_those_that_its_processes_compute_on(
    monkeypatch: pytest.MonkeyPatch, pids: set[int], cards: list[str]
) -> None:
    """All of them, where none of its processes is known to the driver."""
    monkeypatch.setitem(sys.modules, "pynvml", Driver())  # type: ignore[arg-type]  # all that is asked of it
    assert [card.gpu for card in memory_probe.Gpus().read_of(pids)] == cards


class Shared(Driver):
    """Two whole cards; a neighbour has filled the first one, and this process computes on the second."""

    here = True

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        """Full, and half full."""
        return SimpleNamespace(used=50 if handle else 99, total=100)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802
        """One on each."""
        pid = os.getpid() if handle and self.here else 1
        return [SimpleNamespace(pid=pid, usedGpuMemory=None)]

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:  # noqa: N802
        """The neighbour is busy."""
        return SimpleNamespace(gpu=20 if handle else 100, memory=40)


def test_a_card_of_another_program_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by what takes seats away nor by what the alerts read; nor while the engine is being replaced."""
    driver = Shared()
    monkeypatch.setitem(sys.modules, "pynvml", driver)  # type: ignore[arg-type]  # all that is asked of it
    probe, gpus = MemoryProbe(), memory_probe.Gpus()
    for driver.here in (True, False):
        assert (probe().gpu_usage_ratio, probe().gpu_busy_ratio) == (0.5, 0.2)
        families = machine_families(ProcessorUse(), gpus)
        shown = {one.name: [sample.labels for sample in one.samples] for one in families if "_gpu_" in one.name}
        assert len(shown) == 3
        assert all(labels == [{"gpu": "1"}] for labels in shown.values())
    assert not [one for one in machine_families(ProcessorUse(), None) if "_gpu_" in one.name]
