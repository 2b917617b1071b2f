"""``headway.wrap`` in a program: an engine with an unchanged interface, behind a gate."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from engines import ServingEngine, assert_no_residue, outcomes
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

import headway
from headway import Expired, PresetError, Reason, Rejected, UnknownClassError, UnknownPresetError
from headway.api.schema import LimitStatus
from headway.audit import Caller
from headway.engine.fake import EngineDied, FakeEngine, FakeOutput, FakeParams
from headway_policies import Timeouts


def engine_of(seats: int = 1, *, engine: FakeEngine | None = None, most_waiting: int = 100) -> Any:
    return headway.wrap(engine or FakeEngine(step_s=1.0), small_preset(seats, most_waiting=most_waiting))


async def read(engine: Any, request_id: str, tokens: int = 3, **options: Any) -> list[FakeOutput]:
    n = options.pop("n", 1)
    return [one async for one in engine.generate("text", FakeParams(tokens, n), request_id, **options)]


@on_virtual_time
async def test_an_answer_comes_through_whole_and_in_order() -> None:
    """Every output of the engine reaches the caller, none twice, under the caller's own id."""
    outputs = await read(engine_of(), "a", 5)
    assert [len(output.tokens) for output in outputs] == [1, 2, 3, 4, 5]
    assert [output.finished for output in outputs] == [False] * 4 + [True]
    assert {output.request_id for output in outputs} == {"a"}


@pytest.mark.parametrize(
    ("engine", "lacks"),
    [
        (object(), "object lacks generate, abort, errored"),
        (None, "NoneType lacks generate, abort, errored"),
        ("balanced", "str lacks generate, abort, errored"),
        (FakeEngine, "FakeEngine is a class; give an instance of it"),
    ],
)
def test_what_is_no_engine_is_refused_with_what_it_lacks(engine: Any, lacks: str) -> None:
    """One TypeError that names what is missing, and what may be wrapped."""
    with pytest.raises(TypeError) as refused:
        headway.wrap(engine)
    assert str(refused.value).startswith("headway.wrap takes an engine, such as an AsyncLLM of vLLM")
    assert str(refused.value).endswith(lacks)


PRIORITIES = {
    "by name": ("realtime", "realtime", 0),
    "by number": (3, "realtime", 0),
    "by a number between": (2, "normal", 1),
    "by a number below all": (-7, "batch", 2),
    "not at all": (None, "normal", 1),
}


@pytest.mark.parametrize(("asked", "name", "rank"), PRIORITIES.values(), ids=PRIORITIES)
@on_virtual_time
async def test_a_priority_is_a_class_by_name_or_number(asked: object, name: str, rank: int) -> None:
    """The request is counted under its class, and the engine gets the class's rank, 0 the most urgent."""
    engine = engine_of()
    await read(engine, "a", priority=asked)
    assert engine.priorities == {"a": rank}
    assert engine.headway.gateway.gate.desk.ledger.classes[name].outcomes == {headway.Outcome.COMPLETED: 1}


@on_virtual_time
async def test_tenant_is_shown_to_operators_and_not_to_the_engine() -> None:
    """Headway's own options never reach the engine."""
    seen: list[dict[str, Any]] = []

    class Curious(FakeEngine):
        async def generate(self, prompt: Any, sampling_params: Any, request_id: str, **options: Any) -> Any:
            seen.append(options)
            async for one in super().generate(prompt, sampling_params, request_id, **options):
                yield one

    engine = engine_of(engine=Curious(step_s=1.0))
    own = {"tenant": "acme", "timeout_s": 50, "timeouts": Timeouts(queue_s=5), "may_wait": False}
    task = asyncio.create_task(read(engine, "a", **own, lora_request="mine"))
    await asyncio.sleep(0.5)
    assert [one["tenant"] for one in engine.headway.gateway.gate.dump()["running"]] == ["acme"]
    await task
    assert seen == [{"priority": 1, "lora_request": "mine"}]


@on_virtual_time
async def test_a_call_names_its_stages_and_whether_it_would_queue() -> None:
    """timeouts bounds each stage apart; may_wait=False is refused at once while no seat is free."""
    engine = engine_of()
    holder = asyncio.create_task(read(engine, "a", 20))
    await asyncio.sleep(0.5)
    with pytest.raises(Rejected) as rejected:
        await read(engine, "b", may_wait=False)
    assert rejected.value.reason is Reason.NO_FREE_SEAT
    with pytest.raises(Expired):
        await read(engine, "c", timeouts=Timeouts(queue_s=3), timeout_s=50)
    assert asyncio.get_running_loop().time() == pytest.approx(3.5)
    await holder
    await assert_no_residue(engine.headway)


@on_virtual_time
async def test_an_unknown_class_is_the_callers_mistake() -> None:
    """UnknownClassError, a ValueError that lists the classes; nothing is counted."""
    engine = engine_of()
    with pytest.raises(UnknownClassError, match="realtime, normal, batch"):
        await read(engine, "a", priority="gold")
    assert outcomes(engine.headway) == {}
    await assert_no_residue(engine.headway)


@on_virtual_time
async def test_everything_else_of_the_engine_is_as_before() -> None:
    """The same object, its own type, its attributes and its other methods; it gains no method it did not have."""
    plain = FakeEngine(max_num_seqs=7, step_s=1.0)
    engine: Any = headway.wrap(plain)
    assert engine is plain
    assert isinstance(engine, FakeEngine)
    assert engine.max_num_seqs == 7
    assert engine.errored is False
    for name in ("encode", "check_admission", "shutdown"):
        assert not hasattr(engine, name)
    await engine.abort("unknown")
    await engine.abort(name for name in ("one", "other"))
    assert engine.aborted == ["unknown", ["one", "other"]]
    assert FakeEngine(max_num_seqs=7).__class__ is FakeEngine


@on_virtual_time
async def test_the_control_room_answers_and_switches() -> None:
    """engine.headway shows the state, the ceiling is the engine's own, and a switch takes effect at once."""
    engine: Any = headway.wrap(FakeEngine(max_num_seqs=16), preset="latency")
    limit = LimitStatus(live=8, proposed=8, ceiling=16, reason="start", kv_seats_tokens=1024)
    assert engine.headway.status().limit == limit
    assert engine.headway.status().ready is True
    done = await engine.headway.switch("throughput", expected_revision=1, caller=Caller())
    assert (done.previous, done.revision) == ("latency", 2)
    assert engine.headway.status().limit.live == 16


@on_virtual_time
async def test_a_preset_of_ones_own_can_be_switched_back_to() -> None:
    """A Preset object or a file is listed beside the bundled ones."""
    engine = engine_of()
    await engine.headway.switch("latency", expected_revision=None, caller=Caller())
    await engine.headway.switch("small", expected_revision=None, caller=Caller())
    status = engine.headway.status().preset
    assert (status.name, status.revision, status.trial) == ("small", 3, None)


@on_virtual_time
async def test_a_preset_may_be_a_file(tmp_path: Path) -> None:
    """A path, as text or as Path, is read as a preset."""
    text = "name = 'mine'\ndefault_class = 'all'\nbatching = {seats = 3, window_ms = 0}\nqueue = {max_waiting = 9}\n"
    terms_text = "classes.all = {priority = 1, max_waiting = 9, queue_timeout_s = 1, total_timeout_s = 2}\n"
    path = tmp_path / "mine.toml"
    path.write_text(text + terms_text)
    for given in (path, str(path)):
        engine: Any = headway.wrap(FakeEngine(), preset=given)
        assert engine.headway.status().limit.live == 3


@pytest.mark.parametrize(
    ("preset", "error"), [("gold", UnknownPresetError), ("./nowhere.toml", PresetError)], ids=["a name", "a file"]
)
def test_a_preset_that_is_not_there_does_not_change_the_engine(preset: str, error: type[Exception]) -> None:
    """One clear error before anything has changed; the engine can still be wrapped."""
    engine: Any = FakeEngine()
    with pytest.raises(error):
        headway.wrap(engine, preset=preset)
    assert type(engine) is FakeEngine
    assert not hasattr(engine, "headway")
    headway.wrap(engine)


def test_an_engine_is_wrapped_once() -> None:
    """Two gates in a row would count everything twice."""
    engine: Any = headway.wrap(FakeEngine())
    with pytest.raises(ValueError, match="already"):
        headway.wrap(engine)


@on_virtual_time
async def test_two_wrapped_engines_have_nothing_in_common() -> None:
    """Each has its own gate, though they are of one class."""
    one, two = engine_of(1), engine_of(2)
    await read(one, "a")
    assert outcomes(one.headway) == {"completed": 1}
    assert outcomes(two.headway) == {}
    assert (one.headway.status().limit.live, two.headway.status().limit.live) == (1, 2)


# ---------------------------------------------------------------------- early ends


@on_virtual_time
async def test_a_generator_that_is_dropped_leaves_nothing() -> None:
    """A generator that is no longer referenced is settled when it is collected."""
    engine = engine_of()
    stream = engine.generate("text", FakeParams(100), "a")
    await anext(stream)
    del stream
    gc.collect()
    await asyncio.sleep(2.0)
    await assert_no_residue(engine.headway)
    assert outcomes(engine.headway) == {"cancelled_running": 1}


@on_virtual_time
async def test_a_generator_that_is_never_started_counts_nowhere() -> None:
    """Asking begins with the first step of the iteration."""
    engine = engine_of()
    stream = engine.generate("text", FakeParams(), "a")
    await stream.aclose()
    assert outcomes(engine.headway) == {}
    assert engine.started == []


# ---------------------------------------------------------------------- ids


@on_virtual_time
async def test_two_requests_of_one_id_never_cross() -> None:
    """The same id twice at once: both answers are whole, and cancelling one leaves the other alone."""
    engine = engine_of(3)
    kept, left, third = (asyncio.create_task(read(engine, "same", 6)) for _ in range(3))
    await asyncio.sleep(2.5)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    assert [len((await task)[-1].tokens) for task in (kept, third)] == [6, 6]
    await assert_no_residue(engine.headway)
    assert engine.aborted == ["same~2"]
    assert outcomes(engine.headway) == {"completed": 2, "cancelled_running": 1}


@on_virtual_time
async def test_a_retry_under_the_same_id_is_not_hit_by_the_abort_of_the_first_try() -> None:
    """Cancelled and asked again at once: the abort that is still on its way stops the first, not the second."""
    engine = engine_of()
    first = asyncio.create_task(read(engine, "same", 6))
    await asyncio.sleep(1.5)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    outputs = await read(engine, "same", 6)
    assert [output.finish_reason for output in outputs] == [None] * 5 + ["length"]
    assert len(outputs[-1].tokens) == 6
    await assert_no_residue(engine.headway)
    assert outcomes(engine.headway) == {"completed": 1, "cancelled_running": 1}


# ---------------------------------------------------------------------- seats


@on_virtual_time
async def test_the_engine_never_holds_more_sequences_than_the_limit() -> None:
    """A hundred requests of one or two sequences against a limit of five."""
    engine = headway.wrap(
        FakeEngine(step_s=1.0), small_preset(5, classes={"normal": terms(1, queue_s=9e3, total_s=9e3)})
    )
    await asyncio.gather(*(read(engine, f"{number}", 2, n=1 + number % 2) for number in range(100)))
    assert engine.most_running == 5
    assert outcomes(engine.headway) == {"completed": 100}
    await assert_no_residue(engine.headway)


# ---------------------------------------------------------------------- the rest of an engine


@on_virtual_time
async def test_pooling_passes_the_same_gate() -> None:
    """encode waits for its seat, one for each call."""
    engine = engine_of(engine=ServingEngine(step_s=1.0))
    task = asyncio.create_task(read(engine, "a"))
    await asyncio.sleep(0.5)
    outputs = [one async for one in engine.encode("text", None, "b", priority="realtime")]
    assert (task.done(), len(outputs)) == (True, 1)
    assert engine.priorities["b"] == 0
    await assert_no_residue(engine.headway)
    assert outcomes(engine.headway) == {"completed": 2}


@on_virtual_time
async def test_a_shutdown_answers_all_waiting_and_running_requests() -> None:
    """Stopping the engine refuses the waiting and the running as drained, and stops it."""
    engine = engine_of(engine=ServingEngine(step_s=1.0))
    tasks = [asyncio.create_task(read(engine, request_id)) for request_id in "ab"]
    await asyncio.sleep(0.5)
    engine.shutdown()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [getattr(result, "reason", None) for result in results] == [Reason.DRAINING, Reason.DRAINING]
    assert engine.stopped
    await assert_no_residue(engine.headway)
    assert outcomes(engine.headway) == {"drained": 2}


@on_virtual_time
async def test_the_death_of_the_engine_is_reported_to_all_callers() -> None:
    """Running and waiting calls get Rejected with ENGINE_LOST, new ones at once, and the status shows it."""
    engine = engine_of(engine=FakeEngine(step_s=1.0))
    tasks = [asyncio.create_task(read(engine, request_id)) for request_id in "ab"]
    await asyncio.sleep(0.5)
    engine.die()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [getattr(result, "reason", None) for result in results] == [Reason.ENGINE_LOST, Reason.ENGINE_LOST]
    assert isinstance(results[0].__cause__, EngineDied)  # type: ignore[union-attr]  # an exception, as was just seen
    with pytest.raises(Rejected):
        await read(engine, "c")
    assert engine.headway.status().engine.healthy is False
    assert outcomes(engine.headway) == {"engine_lost": 3}
    await assert_no_residue(engine.headway)
