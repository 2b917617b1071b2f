"""What the gate reports: to its meter, to the desk, and to the client that it refuses."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from gate_state import assert_at_rest, outcomes, usages
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

from headway.admission.gate import Gate
from headway.admission.listeners import EndedRequest
from headway.errors import Expired, Refused, Rejected, TimedOut
from headway_policies import Ending, Outcome, Reason, Timeouts, Usage
from headway_policies.desk import Phase
from headway_policies.fallback.degradation import Degradation
from headway_policies.fallback.rungs import Fallback, Rung


class Notes:
    """A meter that records its calls."""

    def __init__(self) -> None:
        self.waits: list[tuple[str, float]] = []
        self.batches: list[int] = []
        self.first_tokens: list[tuple[str, float]] = []
        self.prefills_s: list[float] = []
        self.ends: list[EndedRequest] = []

    def waited(self, class_name: str, wait_s: float, batches: int) -> None:
        self.waits.append((class_name, wait_s))
        self.batches.append(batches)

    def first_token(self, class_name: str, delay_s: float, prefill_s: float) -> None:
        self.first_tokens.append((class_name, delay_s))
        self.prefills_s.append(prefill_s)

    def ended(self, ended: EndedRequest) -> None:
        self.ends.append(ended)


@on_virtual_time
async def test_the_meter_hears_of_each_dispatch_and_each_first_token_once() -> None:
    """The wait ends at the dispatch; the time to the first token counts from the arrival, the queue included.

    A delay that the engine measured counts as it is.
    """
    notes = Notes()
    gate = Gate(small_preset(), meter=notes)
    await asyncio.sleep(100.0)
    first, second, third = gate.enter("batch"), gate.enter(), gate.enter()
    await asyncio.sleep(2.0)
    first.first_token()
    first.first_token()
    first.leave(Ending.COMPLETED)
    await asyncio.sleep(1.0)
    second.first_token()
    second.leave(Ending.COMPLETED)
    third.first_token(0.125)
    third.leave(Ending.COMPLETED)
    assert [name for name, _ in notes.waits] == [name for name, _ in notes.first_tokens] == ["batch", *["normal"] * 2]
    assert [wait_s for _, wait_s in notes.waits] == pytest.approx([0.0, 2.0, 3.0])
    assert [delay_s for _, delay_s in notes.first_tokens] == pytest.approx([2.0, 3.0, 0.125])
    assert notes.prefills_s == pytest.approx([2.0, 1.0, 0.0])
    assert [(one.class_name, one.outcome, one.dispatched, one.total_s) for one in notes.ends] == [
        ("batch", Outcome.COMPLETED, True, 2.0), *[("normal", Outcome.COMPLETED, True, 3.0)] * 2,
    ]  # fmt: skip


@pytest.mark.parametrize(("strategy", "expected"), [("dynamic", [0, 0, 0, 1, 1]), ("continuous", [0, 0, 0, 1, 2])])
@on_virtual_time
async def test_the_meter_hears_how_many_batches_a_request_waited(strategy: str, expected: list[int]) -> None:
    """Those that left before its own while it waited: the sign of a long tail. Without batches each seat that came free
    for another counts as one.
    """
    notes = Notes()
    gate = Gate(small_preset(2, batching={"strategy": strategy, "window_ms": 0}), meter=notes)
    permits = [gate.enter() for _ in range(5)]
    for permit in permits:
        permit.leave(Ending.COMPLETED)
    assert notes.batches == expected


@on_virtual_time
async def test_the_meter_hears_of_each_end_once_however_it_comes() -> None:
    """Completed, cancelled while waiting, refused on arrival, timed out in the queue, and aborted while running."""
    notes = Notes()
    gate = Gate(small_preset(most_waiting=2), meter=notes)
    running = gate.enter(timeouts=Timeouts(total_s=5.0))
    cancelled, waiting = gate.enter(), gate.enter(timeouts=Timeouts(queue_s=3.0))
    with pytest.raises(Refused):
        gate.enter()
    cancelled.leave(Ending.CANCELLED)
    await asyncio.sleep(6.0)
    for permit in (running, waiting, cancelled):
        permit.leave(Ending.FAILED)
    assert [one.outcome for one in notes.ends] == [
        Outcome.REJECTED_FULL, Outcome.CANCELLED_QUEUED, Outcome.EXPIRED_QUEUED, Outcome.EXPIRED_RUNNING,
    ]  # fmt: skip
    assert [one.dispatched for one in notes.ends] == [False, False, False, True]
    assert outcomes(gate) == Counter(one.outcome for one in notes.ends)


@on_virtual_time
async def test_a_slow_reader_lengthens_no_time_between_tokens() -> None:
    """The engine ended the answer long before its client had read it."""
    notes = Notes()
    gate = Gate(small_preset(), meter=notes)
    permit = gate.enter()
    await asyncio.sleep(1.0)
    permit.first_token()
    await asyncio.sleep(2.0)
    permit.use(10, 21, "stop")
    await asyncio.sleep(30.0)
    permit.leave(Ending.COMPLETED)
    (ended,) = notes.ends
    assert (ended.first_token_s, ended.decode_s, ended.total_s) == pytest.approx((1.0, 2.0, 3.0))
    assert ended.pace_s == pytest.approx(0.1)
    assert ended.finish_reasons == ("stop",)


@on_virtual_time
async def test_what_is_known_of_a_request_reaches_its_ticket() -> None:
    """Every wish stands in the ticket as it was given."""
    gate = Gate(small_preset())
    own = {"tenant": "acme", "seats": 1, "prompt_tokens": 5, "prompt_bytes": 20, "max_tokens": 7, "may_wait": False}
    permit = gate.enter("batch", **own)  # type: ignore[arg-type]  # a plain dict of wishes
    assert {name: getattr(permit.ticket, name) for name in own} == own
    permit.leave(Ending.COMPLETED)
    assert_at_rest(gate)


@on_virtual_time
async def test_usage_reaches_the_desk_once_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usage of the sequences is added up, and given at the end."""
    seen = usages(monkeypatch)
    gate = Gate(small_preset(2))
    summed, unknown = gate.enter(), gate.enter()
    for output_tokens in (3, 4):
        summed.use(10, output_tokens)

    summed.leave(Ending.COMPLETED)

    unknown.leave(Ending.COMPLETED)
    assert seen == [Usage(20, 7), None]
    assert_at_rest(gate)


KINDS = {
    Reason.QUEUE_TIMEOUT: (503, Expired),
    Reason.FIRST_TOKEN_TIMEOUT: (504, TimedOut),
    Reason.STALL_TIMEOUT: (504, TimedOut),
    Reason.TOTAL_TIMEOUT: (504, TimedOut),
    Reason.DRAINING: (503, Rejected),
    Reason.NOT_READY: (503, Rejected),
    Reason.ENGINE_LOST: (503, Rejected),
    Reason.OUT_OF_MEMORY: (503, Rejected),
    Reason.POISON: (503, Rejected),
}


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_its_status_and_its_kind(reason: Reason) -> None:
    """429 for want of room or time, 503 for the server's own state and the queue, 504 once the engine had it."""
    from headway.errors import refusal

    error = refusal(reason, 7)
    assert (error.status, type(error)) == KINDS.get(reason, (429, Rejected))


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_status_a_sentence_and_honest_advice(reason: Reason) -> None:
    """The client gets the reason, and Retry-After only where a retry can help."""
    from headway.errors import refusal

    error = refusal(reason, 7)
    assert isinstance(error, Refused)
    assert error.status in (429, 503, 504)
    assert error.retry == (error.status != 504 and reason is not Reason.POISON)
    assert ("Try again in 7 s." in str(error)) == error.retry
    assert str(error).endswith(f"({reason})")


@on_virtual_time
async def test_a_passage_begins_with_nothing_decided() -> None:
    """The permit has the preset of its arrival, and the waiting state; the rest is set at dispatch."""
    gate = Gate(small_preset(1))
    holding, waiting = gate.enter(), gate.enter()
    assert (waiting.phase, waiting.begun, waiting.beside) == (Phase.WAITING, False, False)
    assert (waiting.most_tokens, waiting.usage, waiting.refused) == (None, None, None)
    assert (waiting.dispatched_s, waiting.token_s, waiting.requeues, waiting.ended_sequences) == (None, None, 0, 0)
    assert (waiting.preset_name, waiting.degradations) == ("small", "")
    gate.switch(small_preset(1, name="other"))
    holding.leave(Ending.COMPLETED)
    assert (waiting.phase, waiting.preset_name) == (Phase.RUNNING, "other")
    waiting.leave(Ending.COMPLETED)
    assert_at_rest(gate)


@on_virtual_time
async def test_degraded_requests_are_counted_by_class_and_kind() -> None:
    """One runs beside the batch, one is capped, one is shed; a request that gets all it asked for is not counted."""
    classes = {
        "realtime": terms(3, may_bypass=True),
        "normal": terms(2, fallback_max_tokens=8),
        "batch": terms(1, sheddable=True),
    }
    preset = small_preset(1, classes=classes, batching={"strategy": "static"})
    gate = Gate(preset.model_copy(update={"fallback": Fallback(bypass_seats=1)}), ceiling=4)
    permits = [gate.enter("normal", max_tokens=4)]
    gate.fall_back(frozenset({Rung.CAP, Rung.BYPASS, Rung.SHED}))
    permits += [gate.enter("realtime"), gate.enter("normal", max_tokens=100)]
    with pytest.raises(Refused):
        gate.enter("batch")
    permits[0].leave(Ending.COMPLETED)
    assert gate.degraded == {
        ("realtime", Degradation.ORDER): 1,
        ("batch", Degradation.REFUSED): 1,
        ("normal", Degradation.MAX_TOKENS): 1,
    }
    assert [one.degradations for one in permits] == ["", "order", "max_tokens=8"]
    for permit in permits:
        permit.leave(Ending.COMPLETED)


@on_virtual_time
async def test_a_request_ended_while_running_gets_retry_after() -> None:
    """Whole seconds, as for a refused request."""
    gate = Gate(small_preset(1))
    permit = gate.enter(timeouts=Timeouts(total_s=2.0))
    await permit.admitted()
    await asyncio.sleep(3.0)
    with pytest.raises(TimedOut) as caught:
        permit.check()
    assert isinstance(caught.value.retry_after_s, int)
    assert caught.value.retry_after_s >= 1
    permit.leave(Ending.FAILED)
    assert_at_rest(gate)


@on_virtual_time
async def test_an_effect_that_the_gate_does_not_know_is_an_error(failed_effects: list[str]) -> None:
    """No effect of the desk is ignored in silence."""
    gate = Gate(small_preset())
    gate._carry_out([object()])  # type: ignore[list-item]  # no effect at all
    assert gate.effect_errors == 1
    assert "unreachable" in failed_effects.pop()
