"""The fallback controller: its inputs, its notifications, and the operator's orders."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from admin_api import OPERATOR, VIEWER, bearer, client_of
from engines import installed
from prometheus_client import CollectorRegistry, generate_latest
from running_server import Scrape
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

import headway
from headway.api.schema import FallbackModel, FallbackSummary
from headway.engine.fake import FakeEngine
from headway.errors import UnknownRungError
from headway.fallback import FixedReply, OtherEngine, OtherModel
from headway.fallback.client import FallbackClient
from headway.fallback.settings import FallbackSettings
from headway.operator.metrics import MetricsCollector
from headway_policies import Block, Ending, Load, Preset, Reason
from headway_policies.desk import DeskReading
from headway_policies.fallback.degradation import Degradation
from headway_policies.fallback.rungs import Fallback, FallbackSignals, Rung
from headway_tools.cli.control import fallback

CLASSES = {
    "normal": terms(2, fallback_max_tokens=64, may_divert=True),
    "batch": terms(1, sheddable=True, queue_s=None, total_s=None),
}


def preset(**fallback: Any) -> Preset:
    """One seat; normal may be capped and diverted, batch may be shed."""
    times = {"enter_s": 1.0, "leave_s": 2.0}
    return small_preset(classes=CLASSES).model_copy(update={"fallback": Fallback(**times | fallback)})


def control_room(
    *, other_model: OtherModel | None = None, **fallback: Any
) -> tuple[headway.Control, list[frozenset[Rung]]]:
    """The control of a fake engine, and the rungs that its fallback controller has applied."""
    control, _ = installed(FakeEngine(), preset(**fallback), other_model=other_model)
    applied: list[frozenset[Rung]] = []
    control.fallback_controller.apply = applied.append
    return control, applied


def queue_age_s(control: headway.Control) -> float:
    """As the ladder is told it now."""
    gate = control.gateway.gate
    return control.fallback_controller.signals(gate.desk.read(gate.now_s()), gate.now_s()).queue_age_s


def other() -> FallbackClient:
    """A route to another model that is always reachable in these tests."""
    return FallbackClient(FallbackSettings("http://127.0.0.1:9/v1", "small"))


@on_virtual_time
async def test_an_old_queue_climbs_and_an_empty_one_comes_down() -> None:
    """The desk is notified each time something else is in force, and only then; moves are kept, newest first."""
    control, applied = control_room(queue_age_s=5.0)
    fallback_controller, gate = control.fallback_controller, control.gateway.gate
    held, waiting = gate.enter("normal"), gate.enter("normal")
    watching = asyncio.create_task(fallback_controller.run())
    await asyncio.sleep(5.9)
    assert applied == []
    await asyncio.sleep(0.5)
    assert applied == [{Rung.CAP}]
    await asyncio.sleep(1.0)
    assert applied == [{Rung.CAP}, {Rung.CAP, Rung.SHED}]
    for permit in (held, waiting):
        permit.leave(Ending.CANCELLED)
    await asyncio.sleep(4.6)
    assert applied[2:] == [{Rung.CAP}, frozenset()]
    moves = [(move.before, move.after, move.trigger) for move in fallback_controller.status().moves]
    path = [("cap", "normal"), ("shed", "cap"), ("cap", "shed"), ("normal", "cap")]
    assert [move[:2] for move in moves] == path
    assert moves[-1][2] == "queue_age"
    watching.cancel()


@on_virtual_time
async def test_nothing_is_read_while_the_server_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once nothing came for a window of the error rate; a request, a rung that is set, a lost engine end the rest."""
    control, applied = control_room(other_model=other(), queue_age_s=5.0, engine_down=True, error_window_s=10.0)
    fallback_controller, gate = control.fallback_controller, control.gateway.gate
    read: list[float] = []
    signals = fallback_controller.signals

    def seen(reading: DeskReading, now_s: float) -> FallbackSignals:
        read.append(now_s)
        return signals(reading, now_s)

    monkeypatch.setattr(fallback_controller, "signals", seen)
    watching = asyncio.create_task(fallback_controller.run())

    async def looks(within_s: float) -> bool:
        read.clear()
        await asyncio.sleep(within_s)
        return bool(read)

    assert (await looks(9.0), await looks(1.5), await looks(60.0)) == (True, True, False)
    held = gate.enter("normal")
    assert (await looks(0.3), await looks(20.0)) == (True, True)
    held.leave(Ending.COMPLETED)
    assert (await looks(9.0), await looks(1.5), await looks(60.0)) == (True, True, False)
    fallback_controller.put_on("normal")
    assert await looks(20.0)
    fallback_controller.put_on(None)
    assert (await looks(11.0), await looks(60.0)) == (True, False)
    gate.engine_lost()
    await asyncio.sleep(1.5)
    assert applied == [{Rung.DIVERT}]
    watching.cancel()


@on_virtual_time
async def test_a_class_that_may_be_shed_may_wait() -> None:
    """Batch work that has waited for an hour is no trouble."""
    control, applied = control_room(queue_age_s=5.0)
    gate = control.gateway.gate
    held, waiting = gate.enter("batch"), gate.enter("batch")
    await asyncio.sleep(3600)
    assert queue_age_s(control) == 0.0
    assert (control.fallback_controller.update(), applied) == (Rung.NORMAL, [])
    for permit in (held, waiting):
        permit.leave(Ending.CANCELLED)


@on_virtual_time
async def test_memory_is_short_only_while_something_runs() -> None:
    """The last step of an idle engine gives no information about the present."""
    control, _ = control_room(kv_usage_ratio=0.9, enter_s=0.0, leave_s=0.0)
    control.activity.load = Load(1, 0, 0.95)
    assert control.fallback_controller.update() is Rung.NORMAL
    held = control.gateway.gate.enter("normal")
    assert control.fallback_controller.update() is Rung.CAP
    held.leave(Ending.COMPLETED)
    assert control.fallback_controller.update() is Rung.NORMAL


@on_virtual_time
async def test_errors_and_a_dead_engine_divert() -> None:
    """Where there is another model; requests refused for a reason of their own are not diverted."""
    for other_model, rung in ((None, Rung.NORMAL), (other(), Rung.DIVERT)):
        control, _ = control_room(
            other_model=other_model,
            error_ratio=0.5, error_min_requests=2, error_window_s=10.0, engine_down=True, enter_s=0.0,
        )  # fmt: skip
        fallback_controller, gate = control.fallback_controller, control.gateway.gate
        fallback_controller.update()
        for ending in (Ending.FAILED, Ending.FAILED):
            gate.enter("normal").leave(ending)
        assert fallback_controller.update() is rung
    assert (
        fallback_controller.diverts("normal"),
        fallback_controller.diverts("batch"),
        fallback_controller.diverts("gone"),
    ) == (True, False, False)
    assert [fallback_controller.diverts("normal", reason) for reason in (Reason.ENGINE_LOST, Reason.POISON)] == [
        True,
        False,
    ]
    watching = asyncio.create_task(fallback_controller.run())
    await asyncio.sleep(10)
    assert fallback_controller.ladder.rung is Rung.DIVERT
    await asyncio.sleep(3)
    watching.cancel()
    assert fallback_controller.ladder.rung is Rung.NORMAL
    gate.engine_lost()
    assert (fallback_controller.update(), fallback_controller.ladder.why) == (Rung.DIVERT, "engine_down")


async def test_a_late_request_of_a_class_that_a_switch_removed_is_refused() -> None:
    """Its terms are not known any more: neither the time that it has left, nor whether the reply is for it."""
    control, _ = control_room(other_model=FixedReply("We are busy.", ("normal", "gone")))
    late = [control.fallback_controller.diverts(name, Reason.QUEUE_TIMEOUT) for name in ("normal", "batch", "gone")]
    assert late == [True, False, False]


async def test_a_router_without_an_instance_diverts() -> None:
    """The router has no engine then, as a server whose engine is away; with one again it takes the ladder back."""
    control, _ = control_room(other_model=other(), engine_down=True, enter_s=0.0, leave_s=0.0)
    gate, ladder = control.gateway.gate, control.fallback_controller
    gate.pause(Block.OPERATOR)
    assert ladder.update() is Rung.NORMAL, "a pause by an operator is no failure"
    gate.pause(Block.NO_INSTANCE)
    assert (ladder.update(), ladder.ladder.why) == (Rung.DIVERT, "engine_down")
    assert ladder.diverts("normal")
    gate.resume(Block.NO_INSTANCE)
    gate.resume(Block.OPERATOR)
    for _ in range(5):
        ladder.update()
    assert ladder.ladder.rung is Rung.NORMAL


@on_virtual_time
async def test_a_fixed_reply_is_a_target_and_is_shown_as_one() -> None:
    """The rung can be used, and status and command line name what answers there."""
    control, _ = control_room(other_model=FixedReply("We are busy."))
    assert control.fallback_controller.put_on("divert") is Rung.DIVERT
    status = control.fallback_controller.status()
    assert status.fallback_model == FallbackModel(model="fixed reply", breaker="closed", in_flight=0)
    assert "divert to fixed reply, breaker closed, 0 in flight" in fallback.text(status)


@on_virtual_time
async def test_a_failed_iteration_of_the_controller_does_not_end_it() -> None:
    """Rungs that could not be put in force are put in force by the next iteration."""
    control, applied = control_room()

    def fails(in_force: frozenset[Rung]) -> None:
        raise RuntimeError("not now")

    control.fallback_controller.apply = fails
    with pytest.raises(RuntimeError):
        control.fallback_controller.put_on("pause")
    watching = asyncio.create_task(control.fallback_controller.run())
    await asyncio.sleep(1)
    control.fallback_controller.apply = applied.append
    await asyncio.sleep(1)
    assert applied == [{Rung.CAP, Rung.SHED, Rung.PAUSE}]
    watching.cancel()


async def test_a_switch_takes_the_ladder_along() -> None:
    """The thresholds and the rungs are those of the preset in force; the switch applies them, not the controller."""
    control, applied = control_room()
    control.catalogue.include(small_preset(name="serene"))
    control.fallback_controller.put_on("shed")
    await control.switch("serene", expected_revision=None, caller=headway.Caller("me"))
    status = control.fallback_controller.status()
    assert (status.usable, status.ordered, status.in_force) == ([], None, [])
    assert [(move.before, move.after) for move in status.moves] == [("shed", "normal"), ("normal", "shed")]
    assert control.fallback_controller.update() is Rung.NORMAL
    assert (applied, control.gateway.gate.desk.mode.in_force) == ([{Rung.CAP, Rung.SHED}], frozenset())


async def test_an_order_is_checked() -> None:
    """An unknown rung and an order without effect get different answers."""
    control, applied = control_room()
    with pytest.raises(UnknownRungError, match="the rungs are: normal, cap"):
        control.fallback_controller.put_on("basement")
    with pytest.raises(UnknownRungError, match="divert has no effect"):
        control.fallback_controller.put_on("divert")
    assert applied == []
    assert control.fallback_controller.put_on("shed") is Rung.SHED
    assert applied == [{Rung.CAP, Rung.SHED}]
    assert control.fallback_controller.put_on(None) is Rung.NORMAL


async def test_the_metrics_show_rung_steps_and_losses() -> None:
    """All series are there from the start, at zero."""
    control, _ = control_room(other_model=other())
    registry = CollectorRegistry()
    registry.register(MetricsCollector(control.snapshot, asyncio.get_running_loop()))
    scrape = Scrape(generate_latest(registry).decode())
    assert scrape("headway_fallback_rung") == 0.0
    assert scrape("headway_fallback_steps_total", rung="pause", trigger="errors") == 0.0
    assert scrape("headway_degraded_total", **{"class": "batch", "kind": "refused"}) == 0.0
    control.fallback_controller.put_on("shed")
    control.fallback_controller.count_diverted("normal")
    scrape = Scrape(generate_latest(registry).decode())
    assert scrape("headway_fallback_rung") == 3.0
    assert scrape("headway_fallback_steps_total", rung="shed", trigger="operator") == 1.0
    assert scrape("headway_degraded_total", **{"class": "normal", "kind": "model"}) == 1.0
    assert control.status().fallback == FallbackSummary(rung="shed", trigger="operator")


async def run_another() -> AsyncIterator[object]:
    """Another engine of a program: a function like its ``generate``."""
    yield object()


@pytest.mark.parametrize(
    ("target", "kind"),
    [(other(), "model"), (FixedReply("We are busy."), "fixed_reply"), (OtherEngine(run_another), "model")],
    ids=["another model", "fixed reply", "another engine"],
)
async def test_a_diverted_request_is_counted_by_what_answered_it(target: OtherModel, kind: str) -> None:
    """A text of the operator's is no model's answer, and an operator wants to see which of them clients get."""
    control, _ = control_room(other_model=target)
    registry = CollectorRegistry()
    registry.register(MetricsCollector(control.snapshot, asyncio.get_running_loop()))
    control.fallback_controller.count_diverted("normal")
    scrape = Scrape(generate_latest(registry).decode())
    counted = {kind: scrape("headway_degraded_total", **{"class": "normal", "kind": kind}) for kind in Degradation}
    assert counted == dict.fromkeys(Degradation, 0.0) | {kind: 1.0}


PATH = "/headway/v1/fallback"


async def test_an_operator_orders_and_the_audit_knows() -> None:
    """A viewer sees it; the order needs an operator, stands until taken back, and is written down with its reason."""
    control, applied = control_room()
    async with client_of(control) as client:
        order = {"rung": "shed", "reason": "night", "actor": "ann"}
        answer = await client.put(PATH, json=order, headers=bearer(OPERATOR))
        assert answer.status_code == 200, answer.text
        seen = await client.get(PATH, headers=bearer(VIEWER))
        assert seen.json() == answer.json()
        assert {key: seen.json()[key] for key in ("rung", "ordered", "trigger", "in_force", "fallback_model")} == {
            "rung": "shed",
            "ordered": "shed",
            "trigger": "operator",
            "in_force": ["cap", "shed"],
            "fallback_model": None,
        }
        assert (await client.put(PATH, json={"rung": None}, headers=bearer(OPERATOR))).json()["ordered"] is None
    assert applied == [{Rung.CAP, Rung.SHED}, frozenset()]
    taken_back, ordered = control.audit.entries(10)
    assert (ordered.action, ordered.actor, ordered.role) == ("order_fallback", "ann", "operator")
    assert (ordered.before, ordered.after, ordered.reason) == ("normal", "shed", "night")
    assert (taken_back.before, taken_back.after, taken_back.result) == ("shed", "normal", "applied")


@pytest.mark.parametrize(
    ("token", "body", "status"),
    [
        (VIEWER, {"rung": "shed"}, 403),
        (OPERATOR, {}, 422),
        (OPERATOR, {"rung": "basement"}, 422),
        (OPERATOR, {"rung": "divert"}, 422),
        (OPERATOR, {"rung": 3}, 422),
        (OPERATOR, {"rung": "shed", "url": "http://127.0.0.1"}, 422),
    ],
)
async def test_a_refused_order_changes_nothing_and_is_written_down(token: str, body: Any, status: int) -> None:
    """A problem with one sentence, and an audit line with the refusal."""
    control, applied = control_room()
    async with client_of(control) as client:
        answer = await client.put(PATH, json=body, headers=bearer(token))
    assert answer.status_code == status
    assert answer.json()["detail"]
    assert applied == []
    (line,) = control.audit.entries(10)
    assert line.result.startswith("refused: ")


def test_moves_are_bounded() -> None:
    """An operator's frequent changes do not fill the log."""
    control, _ = control_room()
    for word in ["shed", None] * 100:
        control.fallback_controller._gate.now_s = lambda: 0.0
        control.fallback_controller.put_on(word)
    assert len(control.fallback_controller.status().moves) == 50


@on_virtual_time
async def test_a_queue_that_nothing_serves_is_no_overload() -> None:
    """While the engine restarts or dispatch is paused the queue ages, and nothing is degraded for it."""
    control, _ = control_room(queue_age_s=5.0)
    gate = control.gateway.gate
    held, _waiting = gate.enter("normal"), gate.enter("normal")
    gate.pause()
    await asyncio.sleep(8)
    assert queue_age_s(control) == 0
    gate.resume()
    assert queue_age_s(control) == pytest.approx(8)
    held.leave(Ending.COMPLETED)
