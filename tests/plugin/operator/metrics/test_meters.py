"""What the meters count of requests that went through a gate, compared with what their clients saw."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from running_server import Scrape
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

import headway
from headway.admission import EndedRequest, Gate
from headway.engine import Ended, PlainAdapter
from headway.engine.fake import FakeEngine, FakeParams
from headway.operator.install import install, prepare
from headway.operator.metrics import Meters
from headway.operator.presets import PresetCatalogue
from headway_policies import Ending, Outcome, Reason, Usage

CLASSES = {"chat": terms(2, ttft_slo_s=1.0, inter_token_slo_ms=150), "batch": terms(1)}


class Bench:
    """A gate with meters on the loop's clock."""

    def __init__(self, seats: int = 1) -> None:
        self.registry = CollectorRegistry()
        clock_s = asyncio.get_running_loop().time
        self.meters = Meters(CLASSES, 8, self.registry, bounds_s=[0.42], inter_token_bounds_s=[0.042], clock_s=clock_s)
        self.gate = Gate(small_preset(seats, classes=CLASSES), ceiling=seats, meter=self.meters)

    async def serve(
        self, class_name: str, first_s: float, tokens: int, pace_s: float, ending: Ending = Ending.COMPLETED
    ) -> None:
        """One request: its first token, then the others at this pace; the client reads a second longer."""
        permit = self.gate.enter(class_name)
        await permit.admitted()
        await asyncio.sleep(first_s)
        permit.first_token()
        await asyncio.sleep(pace_s * (tokens - 1))
        permit.use(7, tokens, "length")
        await asyncio.sleep(1.0)
        permit.leave(ending)

    @property
    def scrape(self) -> Scrape:
        """The metrics now."""
        return Scrape(generate_latest(self.registry).decode())


def histogram(scrape: Scrape, name: str, class_name: str = "chat") -> tuple[float, float]:
    """Count and sum."""
    return (scrape(f"{name}_count", **{"class": class_name}), scrape(f"{name}_sum", **{"class": class_name}))


@on_virtual_time
async def test_durations_are_those_of_the_phases() -> None:
    """Two requests on one seat: the second waits for the first; a slow reader lengthens no token time."""
    bench = Bench()
    await asyncio.gather(bench.serve("chat", 0.4, 11, 0.1), bench.serve("chat", 0.2, 6, 0.2))
    scrape = bench.scrape
    wait_s = 0.4 + 10 * 0.1 + 1.0
    assert histogram(scrape, "headway_queue_wait_seconds") == (2, pytest.approx(wait_s))
    assert histogram(scrape, "headway_time_to_first_token_seconds") == (2, pytest.approx(0.4 + wait_s + 0.2))
    assert histogram(scrape, "headway_prefill_seconds") == (2, pytest.approx(0.6))
    assert histogram(scrape, "headway_decode_seconds") == (2, pytest.approx(2.0))
    assert histogram(scrape, "headway_inter_token_seconds") == (2, pytest.approx(0.3))
    assert histogram(scrape, "headway_end_to_end_seconds") == (2, pytest.approx(1.4 + wait_s + 1.2))
    assert scrape("headway_longest_seconds", of="inter_token", **{"class": "chat"}) == pytest.approx(0.2)
    assert scrape("headway_longest_seconds", of="wait", **{"class": "chat"}) == pytest.approx(wait_s)
    assert scrape("headway_longest_seconds", of="wait", **{"class": "batch"}) == 0
    assert scrape("headway_time_to_first_token_seconds_bucket", le="0.42", **{"class": "chat"}) == 1
    assert scrape("headway_inter_token_seconds_bucket", le="0.042", **{"class": "chat"}) == 0


@on_virtual_time
async def test_tokens_finish_reasons_and_objectives_are_counted_by_class() -> None:
    """The first request meets both objectives, the second is late, and slow; one is cancelled, one refused."""
    bench = Bench()
    await asyncio.gather(bench.serve("chat", 0.4, 11, 0.1), bench.serve("chat", 0.2, 6, 0.2))
    await bench.serve("chat", 0.1, 3, 0.1, Ending.CANCELLED)
    bench.gate.drain()
    with pytest.raises(headway.Refused):
        bench.gate.enter("chat")
    scrape = bench.scrape
    assert scrape("headway_prompt_tokens_total", **{"class": "chat"}) == 21
    assert scrape("headway_output_tokens_total", **{"class": "chat"}) == 20
    assert scrape("headway_output_tokens_total", **{"class": "batch"}) == 0
    assert scrape("headway_finish_reasons_total", finish_reason="length", **{"class": "chat"}) == 3
    found = {
        objective: tuple(
            scrape(f"headway_objective_{what}_total", objective=objective, **{"class": "chat"})
            for what in ("judged", "met")
        )
        for objective in ("first_token", "inter_token", "both")
    }
    assert found == {"first_token": (3, 1), "inter_token": (2, 1), "both": (3, 1)}


@pytest.mark.parametrize(
    ("outcome", "reasons", "counted"),
    [
        (Outcome.COMPLETED, ("stop", "length"), {"stop": 1, "length": 1}),
        (Outcome.COMPLETED, ("repetition",), {"other": 1}),
        (Outcome.COMPLETED, (), {"other": 1}),
        (Outcome.CANCELLED_RUNNING, (), {"abort": 1}),
        (Outcome.EXPIRED_RUNNING, (), {"abort": 1}),
        (Outcome.ENGINE_LOST, (), {"error": 1}),
    ],
    ids=["two sequences", "unknown to us", "not reported", "cancelled", "timed out", "engine lost"],
)
def test_every_answer_has_a_finish_reason_of_a_closed_list(
    outcome: Outcome, reasons: Sequence[str], counted: dict[str, int]
) -> None:
    """A word that the engine invents makes no new series."""
    registry = CollectorRegistry()
    meters = Meters(CLASSES, 8, registry)
    before = {tuple(sample.labels.items()) for sample in Scrape(generate_latest(registry).decode()).samples}
    meters.ended(EndedRequest("chat", outcome, None, None, True, 0.1, 0.2, 0.3, 0.0, Usage(1, 1), tuple(reasons)))
    scrape = Scrape(generate_latest(registry).decode())
    names = ("stop", "length", "abort", "error", "other")
    found = {name: scrape("headway_finish_reasons_total", finish_reason=name, **{"class": "chat"}) for name in names}
    assert {one: count for one, count in found.items() if count} == counted
    assert {tuple(sample.labels.items()) for sample in scrape.samples} == before


def test_a_request_that_was_never_dispatched_has_no_finish_reason() -> None:
    """The request has no answer that could have ended."""
    registry = CollectorRegistry()
    meters = Meters(CLASSES, 8, registry)
    meters.ended(EndedRequest("chat", Outcome.REJECTED_FULL, None, None, False, None, None, 0.0, 0.0, None))
    assert Scrape(generate_latest(registry).decode())("headway_finish_reasons_total") == 0


async def test_the_engines_own_reports_say_how_an_answer_ended() -> None:
    """The end of a sequence in the engine, its tokens and its reason; several of one request each count."""
    registry, catalogue, engine = CollectorRegistry(), PresetCatalogue(), FakeEngine(step_s=0.001)
    meters = Meters.for_presets(catalogue, registry)
    control = install(prepare(engine, PlainAdapter(), catalogue.get("latency"), meters=meters), catalogue)
    async for _ in engine.generate("p", FakeParams(3, n=2), "a"):
        if "a" in engine.running and control.gateway.link.calls.of(next(iter(control.gateway.link.calls)).permit):
            control.activity.step(None, 1, [Ended("a", 5, 3, "stop")])
    scrape = Scrape(generate_latest(registry).decode())
    assert scrape("headway_finish_reasons_total", finish_reason="stop") == 2
    assert scrape("headway_output_tokens_total") == 6
    control.gateway.gate.close()


async def test_nothing_is_left_to_refuse_that_was_not_judged() -> None:
    """A refusal on arrival is judged like one in the queue: neither has an answer."""
    registry = CollectorRegistry()
    gate = Gate(small_preset(1, most_waiting=0, classes=CLASSES), meter=Meters(CLASSES, 8, registry))
    held = gate.enter("chat")
    with pytest.raises(headway.Refused) as refused:
        gate.enter("chat")
    assert refused.value.reason in (Reason.QUEUE_FULL, Reason.NO_FREE_SEAT, Reason.CLASS_QUEUE_FULL)
    scrape = Scrape(generate_latest(registry).decode())
    assert scrape("headway_objective_judged_total", objective="both") == 1
    assert scrape("headway_objective_met_total", objective="both") == 0
    held.leave(Ending.CANCELLED)
    gate.close()


@pytest.mark.parametrize("ceiling", [1, 64, 100, 1024, 8192, 10_000])
def test_every_batch_that_the_engine_can_run_has_a_bucket(ceiling: int) -> None:
    """However many seats it has: a quantile of full batches is a number, not infinity."""
    registry = CollectorRegistry()
    meters = Meters.for_presets(PresetCatalogue(), registry, ceiling)
    meters.step(ceiling)
    scrape = Scrape(generate_latest(registry).decode())
    assert scrape("headway_batch_size_bucket", le=str(float(ceiling))) == 1
    sizes = [float(sample.labels["le"]) for sample in scrape.samples if sample.name == "headway_batch_size_bucket"]
    assert max(size for size in sizes if size != float("inf")) == max(ceiling, 1024)
