"""``headway.wrap`` with all that a server has: warm-up, watch, restart, memory, fallback and metrics, in a program."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from engines import outcomes
from prometheus_client import CollectorRegistry
from small_presets import small_preset, terms
from until import until
from virtual_time import on_virtual_time

import headway
from headway import HeadwayError, Rejected
from headway.audit import Caller
from headway.engine import StepListener
from headway.engine.fake import EngineDied, FakeEngine, FakeOutput, FakeParams
from headway.supervision import CannotReplaceError
from headway_policies import Load, Preset, Recovery
from headway_policies.engine import Warmup
from headway_policies.fallback import Fallback
from headway_policies.limits import LimitSettings

ME = Caller(actor="test", role="admin", address="-")


class StoppableEngine(FakeEngine):
    """A fake engine with a shutdown."""

    ended = False

    def shutdown(self, timeout: float | None = None) -> None:
        """Stop everything."""
        self.ended = True
        self.die()


def preset(seats: int = 2, **parts: Any) -> Preset:
    """A small preset with these parts set."""
    classes = {
        "normal": terms(2, may_divert=True, fallback_max_tokens=3),
        "batch": terms(1, sheddable=True),
    }
    return small_preset(seats, classes=classes).model_copy(update=parts)


async def read(engine: Any, request_id: str, tokens: int = 3, **options: Any) -> list[FakeOutput]:
    """All outputs of one request."""
    return [one async for one in engine.generate("text", FakeParams(tokens), request_id, **options)]


# ---------------------------------------------------------------------- warm-up


@on_virtual_time
async def test_the_first_request_waits_for_the_warm_up() -> None:
    """With ``warmup=`` a function, its requests reach the engine first; they are counted in no class."""
    plain = FakeEngine(step_s=1.0)
    warm = Warmup(max_rounds=1)
    engine = headway.wrap(
        plain,
        preset(warmup=warm),
        warmup=lambda request_id: plain.generate("text", FakeParams(2), request_id),
    )
    assert engine.headway.not_ready() == ["warm-up pending"]
    assert len(await read(engine, "a")) == 3
    assert plain.started[-1] == "a"
    assert len(plain.started) == 1 + 2 + 1 + 1  # one alone, a batch of two, one alone, then the request
    assert all(one.startswith("headway-warm-up-") for one in plain.started[:-1])
    assert outcomes(engine.headway) == {"completed": 1}
    status = engine.headway.status().warmup
    assert (status.state, sorted(status.stages), engine.headway.not_ready()) == (
        "done",
        ["alone", "batch", "single"],
        [],
    )


@on_virtual_time
async def test_a_warm_up_on_demand_reports_its_failure_and_is_retried() -> None:
    """``await engine.headway.warm_up()``: an error while it fails, ready again once it succeeds."""
    plain, fails = FakeEngine(step_s=0.01), [True]

    def start(request_id: str) -> Any:
        if fails[0]:
            raise RuntimeError("not yet")
        return plain.generate("text", FakeParams(2), request_id)

    engine = headway.wrap(plain, preset(), warmup=start)
    with pytest.raises(HeadwayError, match="the warm-up failed: single: RuntimeError: not yet"):
        await engine.headway.warm_up()
    with pytest.raises(Rejected):
        await read(engine, "a")
    fails[0] = False
    await asyncio.sleep(30)
    assert len(await read(engine, "b")) == 3


async def test_a_warm_up_without_requests_says_so_at_once() -> None:
    """Nothing is changed: the engine can still be wrapped."""
    plain = FakeEngine()
    with pytest.raises(ValueError, match="warmup=True: nothing is known of the requests that FakeEngine takes"):
        headway.wrap(plain, warmup=True)
    engine = headway.wrap(plain)
    with pytest.raises(HeadwayError, match="warmup="):
        await engine.headway.warm_up()


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ({"warmup": "yes"}, "warmup= takes True or a function that starts a request, not str"),
        ({"fallback": 7}, "fallback= takes another engine, or a function like its generate: int is neither"),
        ({"fallback": FakeEngine}, "fallback= takes another engine"),
        ({"engine_factory": FakeEngine()}, "engine_factory= takes a function that makes an engine, not FakeEngine"),
        ({"registry": {}}, "registry= takes a prometheus_client.CollectorRegistry, not dict"),
    ],
)
def test_a_wrong_argument_is_one_error_that_changes_nothing(argument: dict[str, Any], text: str) -> None:
    """Each is named, with what it takes."""
    plain = FakeEngine()
    with pytest.raises(TypeError) as refused:
        headway.wrap(plain, **argument)
    assert str(refused.value).startswith(text)
    assert type(plain) is FakeEngine
    headway.wrap(plain)


# ---------------------------------------------------------------------- watch and restart


async def test_a_dead_engine_is_replaced_by_the_factory() -> None:
    """The request without output is retried on the new engine, the one with output fails; references stay valid."""
    made: list[StoppableEngine] = []

    def factory() -> StoppableEngine:
        assert plain.ended  # parts of it may have been left
        assert threading.current_thread() is not threading.main_thread()  # a plain function may take its time
        made.append(StoppableEngine(step_s=0.001))
        return made[-1]

    plain = StoppableEngine(step_s=0.02, max_num_seqs=1)
    engine = headway.wrap(plain, preset(recovery=Recovery(backoff_s=0.01)), engine_factory=factory)
    shown = engine.generate("text", FakeParams(1000), "a")
    await anext(shown)
    silent = asyncio.create_task(read(engine, "b"))  # in the engine, which runs one at a time
    await asyncio.sleep(0.05)
    engine.die()
    with pytest.raises((Rejected, EngineDied, HeadwayError)):
        async for _ in shown:
            pass
    assert len(await asyncio.wait_for(silent, 30)) == 3
    assert len(made) == 1
    assert engine is plain
    assert [one.split("-")[0] for one in made[0].started][-1:] != ["a"]
    assert engine.headway.gateway.link.errored is False
    assert len(await read(engine, "c")) == 3
    assert outcomes(engine.headway)["completed"] == 2


async def test_an_engine_is_recycled_on_command_and_refused_without_a_factory() -> None:
    """A recycle drains the engine and takes the new one."""
    engine = headway.wrap(StoppableEngine(step_s=0.001), preset(), engine_factory=lambda: StoppableEngine(step_s=0.001))
    await read(engine, "a")
    await asyncio.sleep(0.5)  # the supervisor's first round
    engine.headway.recycle(ME, "test")
    await until(lambda: engine.headway.status().memory.recycled["command"] == 1)
    assert engine.started == []
    assert len(await read(engine, "b")) == 3
    other = headway.wrap(FakeEngine(step_s=0.001), preset())
    await read(other, "a")
    with pytest.raises(CannotReplaceError):
        other.headway.recycle(ME, "test")


async def test_a_factory_of_another_class_is_one_line_and_no_engine() -> None:
    """After the attempts every request is refused; none hangs."""
    recovery = Recovery(backoff_s=0.01, max_restarts=2)
    engine = headway.wrap(StoppableEngine(step_s=0.001), preset(recovery=recovery), engine_factory=FakeEngine)
    await read(engine, "a")
    await asyncio.sleep(0.3)
    engine.die()
    await until(lambda: engine.headway.gateway.link.engine_lost)
    with pytest.raises(Rejected):
        await read(engine, "b")


# ---------------------------------------------------------------------- fallback


@on_virtual_time
async def test_diverted_requests_run_on_the_other_engine() -> None:
    """On the rung every request of a class that allows it goes there; the other class stays."""
    other = FakeEngine(step_s=0.1)
    engine = headway.wrap(FakeEngine(step_s=0.1), preset(), fallback=other)
    await read(engine, "a")
    engine.headway.order_fallback("divert", caller=ME)
    assert len(await read(engine, "b", tenant="acme", timeout_s=20)) == 3
    assert (engine.started, other.started) == (["a"], ["b"])
    with pytest.raises(Rejected):
        await read(engine, "c", priority="batch")  # shed, which is the rung below
    status = engine.headway.fallback_controller.status()
    assert (status.rung, status.fallback_model.model) == ("divert", "FakeEngine")


@on_virtual_time
async def test_a_refused_request_runs_on_the_other_engine_once_there_is_reason() -> None:
    """A dead engine diverts by itself, where the preset says so; the caller sees the outputs and no error."""
    other = FakeEngine(step_s=0.1)
    fallback = Fallback(engine_down=True, enter_s=0.5, leave_s=5.0)
    engine = headway.wrap(FakeEngine(step_s=0.1), preset(fallback=fallback), fallback=other)
    await read(engine, "a")
    engine.die()
    with pytest.raises((EngineDied, HeadwayError)):
        await read(engine, "b")
    await asyncio.sleep(2)
    assert len(await read(engine, "c")) == 3
    assert other.started == ["c"]


@on_virtual_time
async def test_a_function_gives_a_fixed_reply() -> None:
    """One output that no engine made, to every request on the rung; the function's name is shown."""

    async def busy(prompt: Any, params: Any, request_id: str, **options: Any) -> AsyncGenerator[str, None]:
        yield "We are busy."

    engine = headway.wrap(FakeEngine(step_s=0.1), preset(), fallback=busy)
    engine.headway.order_fallback("divert", caller=ME)
    assert await read(engine, "a") == ["We are busy."]
    assert engine.started == []
    assert engine.headway.fallback_controller.status().fallback_model.model == "busy"


@on_virtual_time
async def test_a_failing_other_engine_leaves_the_request_here() -> None:
    """Until its first output nothing is lost; after some failures it is left alone for a while."""
    calls = []

    async def other(prompt: Any, params: Any, request_id: str, **options: Any) -> Any:
        calls.append(request_id)
        raise RuntimeError("broken")
        yield

    engine = headway.wrap(FakeEngine(step_s=0.1), preset(), fallback=other)
    await read(engine, "a")
    engine.headway.order_fallback("divert", caller=ME)
    for number in range(6):
        assert len(await read(engine, f"b{number}", tokens=2)) == 2
    assert len(calls) == 3  # then its circuit breaker is open


@on_virtual_time
async def test_an_error_of_the_other_engine_after_its_first_output_is_the_callers() -> None:
    """The answer is not begun a second time here."""

    async def other(prompt: Any, params: Any, request_id: str, **options: Any) -> Any:
        yield FakeOutput(request_id, (0,), False)
        raise RuntimeError("broken")

    engine = headway.wrap(FakeEngine(step_s=0.1), preset(), fallback=other)
    await read(engine, "a")
    engine.headway.order_fallback("divert", caller=ME)
    with pytest.raises(RuntimeError, match="broken"):
        await read(engine, "b")
    assert engine.started == ["a"]


@on_virtual_time
async def test_a_capped_answer_is_shorter_in_a_program_too() -> None:
    """The milder rung changes the engine's own parameters, where they can be changed."""
    engine = headway.wrap(FakeEngine(step_s=0.1), preset())
    await read(engine, "a")
    engine.headway.order_fallback("cap", caller=ME)
    assert len(await read(engine, "b", tokens=8)) == 3


# ---------------------------------------------------------------------- memory, metrics, end


async def test_metrics_are_shown_in_the_given_registry_of_one_engine() -> None:
    """A second engine in the same registry is refused before it is changed."""
    registry = CollectorRegistry()
    engine = headway.wrap(FakeEngine(step_s=0.001), preset(), registry=registry)
    await read(engine, "a")
    assert registry.get_sample_value("headway_arrivals_total", {"class": "normal"}) == 1
    assert registry.get_sample_value("headway_queue_wait_seconds_count", {"class": "normal"}) == 1
    other = FakeEngine()
    with pytest.raises(ValueError, match="registry"):
        headway.wrap(other, preset(), registry=registry)
    headway.wrap(other, preset())


async def test_the_background_work_ends_with_the_engine() -> None:
    """After ``shutdown`` no task of Headway's is left."""
    engine = headway.wrap(StoppableEngine(step_s=0.001), preset())
    await read(engine, "a")
    assert any(one.get_name() == "headway supervisor" for one in asyncio.all_tasks())
    engine.shutdown()
    await asyncio.sleep(0.05)
    assert not [one for one in asyncio.all_tasks() if one.get_name().startswith("headway ")]


def test_wrapping_needs_no_event_loop_and_starts_nothing() -> None:
    """Two programs in a row may use two loops, one for each engine."""
    for _ in range(2):
        engine = headway.wrap(FakeEngine(step_s=0.001), preset())
        assert len(asyncio.run(read(engine, "a"))) == 3


# ---------------------------------------------------------------------- the steps of an engine


class ListenedEngine(StoppableEngine):
    """It can report its steps."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.listeners: list[StepListener] = []

    def listen(self, listener: StepListener) -> None:
        """One more listens."""
        self.listeners.append(listener)


@on_virtual_time
async def test_the_steps_of_a_programs_own_engine_are_heard_from_its_successor_too() -> None:
    """Once each, through its ``listen``."""
    engine: Any = headway.wrap(ListenedEngine(step_s=0.01), preset(), engine_factory=ListenedEngine)
    assert await read(engine, "a")
    (first,) = engine.listeners
    engine.die()
    await until(lambda: not engine.errored and engine.headway.not_ready() == [])
    assert engine.listeners == [first]
    assert await read(engine, "b")
    first.step(Load(3, 1, 0.5), 3, [])
    assert engine.headway.status().engine.running == 3
    engine.shutdown()


@pytest.mark.parametrize(
    ("engine", "limit", "warned"),
    [
        (StoppableEngine, LimitSettings(policy="aimd"), True),
        (StoppableEngine, LimitSettings(memory_aware=True), True),
        (StoppableEngine, LimitSettings(), False),
        (ListenedEngine, LimitSettings(policy="aimd"), False),
    ],
    ids=["adaptive", "by memory", "fixed", "reports its steps"],
)
async def test_an_engine_that_reports_no_steps_and_a_limit_that_needs_them_are_one_warning(
    engine: type[StoppableEngine], limit: LimitSettings, warned: bool
) -> None:
    """The limit would stay at the preset's seats, and nothing else would say so."""
    control = headway.wrap(engine(), preset(limit=limit)).headway
    assert sum("does not report its steps" in one for one in control.warnings(control.preset)) == warned
