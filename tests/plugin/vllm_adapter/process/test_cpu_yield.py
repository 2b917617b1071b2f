"""vLLM's processes wait for each other without occupying a processor: spin for a short while, then sleep."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from headway.vllm_adapter.process import cpu_yield
from headway.vllm_adapter.process.cpu_yield import BoundedSpin, yield_cpu


class Waiting:
    """A wait on a clock of its own: a spin takes 10 µs, a sleep as long as it was asked for and 60 µs more."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.spins = 0
        self.naps: list[float] = []
        self.give_way = BoundedSpin(self._spin, lambda: self.now_s, self._sleep)

    def _spin(self) -> None:
        self.spins += 1
        self.now_s += 10e-6

    def _sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now_s += seconds + 60e-6

    def wait(self, seconds: float) -> tuple[int, int]:
        """Wait that long after a piece of work; returns the spins and the sleeps."""
        self.spins, self.naps = 0, []
        self.now_s += 0.005
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.give_way()
            self.now_s += 2e-6  # it looks whether the message has come
        return self.spins, len(self.naps)


def test_a_short_wait_spins_and_a_long_one_sleeps() -> None:
    """A message within the first millisecond is met without a sleep; later, 0.1 ms at a time."""
    waiting = Waiting()
    for _ in range(3):
        spins, naps = waiting.wait(0.0009)
        assert (spins > 70, naps) == (True, 0)
        spins, naps = waiting.wait(0.030)
        assert spins <= 100
        assert naps == pytest.approx((0.030 - 0.001) / 162e-6, abs=2)
        assert set(waiting.naps) == {0.0001}


def test_a_late_wake_up_is_no_new_wait() -> None:
    """On a busy machine a sleep may last for long: what was asleep does not begin to spin again."""
    waiting = Waiting()
    waiting.wait(0.002)
    waiting.give_way = BoundedSpin(
        waiting._spin, lambda: waiting.now_s, lambda _: setattr(waiting, "now_s", waiting.now_s + 0.01)
    )
    spins, _ = waiting.wait(0.5)
    assert spins <= 100


@pytest.mark.parametrize(
    ("cpu", "cores", "replaced"),
    [(True, 2, True), (True, 8, True), (True, 9, False), (False, 2, False)],
    ids=["two cores", "eight cores", "cores to spare", "a GPU"],
)
def test_only_a_cpu_with_few_cores_is_spared(
    monkeypatch: pytest.MonkeyPatch, cpu: bool, cores: int, replaced: bool
) -> None:
    """Everywhere else vLLM waits as it does by itself."""
    spinners, platforms = ModuleType("spinners"), ModuleType("platforms")
    spin = spinners.sched_yield = lambda: None  # type: ignore[attr-defined]
    platforms.current_platform = SimpleNamespace(is_cpu=lambda: cpu)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, cpu_yield._SPINNERS, spinners)
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    monkeypatch.setattr(cpu_yield.os, "sched_getaffinity", lambda pid: range(cores))
    yield_cpu()
    assert (spinners.sched_yield is not spin) == replaced


def test_a_vllm_that_waits_in_another_way_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module has no such function, or was not imported."""
    monkeypatch.setitem(sys.modules, cpu_yield._SPINNERS, ModuleType("spinners"))
    yield_cpu()
    monkeypatch.delitem(sys.modules, cpu_yield._SPINNERS)
    yield_cpu()
