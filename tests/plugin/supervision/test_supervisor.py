"""The supervisor in virtual time: engines that die, run out of memory or are recycled, and every request."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest
from engines import outcomes
from supervised_engine import START_S, Harness
from virtual_time import on_virtual_time

import headway
from headway_policies import Cause, EngineState


@on_virtual_time
async def test_a_request_without_output_is_retried_and_one_with_output_fails(caplog: pytest.LogCaptureFixture) -> None:
    """The engine dies with one stream under way, one just begun and one waiting: an error, and two whole answers."""
    caplog.set_level(logging.INFO, "headway.supervision")
    harness = Harness()
    flowing = harness.ask("flowing")
    await asyncio.sleep(0.5)
    fresh, waiting = harness.ask("fresh"), harness.ask("waiting")
    await asyncio.sleep(0.05)
    harness.engine.die()
    await asyncio.sleep(1)
    assert harness.engine_state is EngineState.RESTARTING
    assert harness.control.not_ready() == ["the engine is being replaced: starting another engine"]
    assert [call.done() for call in (flowing, fresh, waiting)] == [True, False, False]
    await asyncio.sleep(5)
    late = harness.ask("late")
    assert await asyncio.gather(flowing, fresh, waiting, late) == [
        "engine_lost", "20 tokens", "queue_timeout", "20 tokens",
    ]  # fmt: skip
    assert (harness.probes, harness.engine_state, harness.control.not_ready()) == (1, EngineState.UP, [])
    assert harness.control.gateway.gate.desk.ledger.classes["normal"].retries == 1
    assert "requests that were running at the death are retried first, one at a time: 1" in caplog.text
    await harness.close()


@on_virtual_time
async def test_the_first_request_of_all_may_come_during_a_restart() -> None:
    """The death before it counts as one: one attempt, and the request waits for the new engine."""
    harness = Harness()
    await asyncio.sleep(1)
    harness.engine.die()
    await asyncio.sleep(5)
    first = harness.ask("first")
    assert await first == "20 tokens"
    assert (harness.supervisor.deaths[Cause.CRASH], harness.replacement.started) == (1, 1)
    await harness.close()


@on_virtual_time
async def test_the_requests_that_a_dead_engine_was_running_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """First the death and what follows; then each request, nothing of its text; of many, some."""
    harness = Harness(seats=30)
    requests = [harness.ask(f"r{number}", whole=number > 0) for number in range(25)]
    await asyncio.sleep(0.15)
    with caplog.at_level(logging.INFO, "headway"):
        harness.engine.die()
        await asyncio.sleep(1)
    lines = [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]
    assert lines[0] == "the engine died (crash): restart attempt 1 of 3 in 0 s, with 100 % of the seats"
    size = "class normal, prompt tokens: 1, sequences: 1"
    assert lines[1] == f"running when the engine died: request r0 ({size}, had sent output)"
    assert len(lines) == 22
    assert lines[-1] == "running when the engine died: 5 more requests"
    await asyncio.gather(*requests)
    await harness.close()


@on_virtual_time
async def test_the_queue_keeps_its_time_outs_while_there_is_no_engine() -> None:
    """A waiting request is refused when its ten seconds in the queue are over, not when an engine comes."""
    harness = Harness(seats=1)
    harness.ask("running")
    await asyncio.sleep(0.01)
    waiting = harness.ask("waiting")
    await asyncio.sleep(0.05)
    harness.engine.die()
    await asyncio.sleep(9.8)
    assert not waiting.done()
    await asyncio.sleep(0.2)
    assert waiting.result() == "queue_timeout"
    await asyncio.sleep(30)
    await harness.close()


@on_virtual_time
async def test_suspects_go_one_after_another_before_anybody_else() -> None:
    """Four were running: after the crash one runs at a time, then new ones, then all seats are used again."""
    harness = Harness(seats=4)
    suspects = [harness.ask(f"suspect-{number}") for number in range(4)]
    await asyncio.sleep(0.05)
    harness.engine.die()
    await asyncio.sleep(START_S - 1)
    arrivals = [harness.ask(f"arrival-{number}") for number in range(4)]
    most: dict[str, int] = {"suspect": 0, "arrival": 0}
    while not all(arrival.done() for arrival in arrivals):
        running = Counter(request_id.split("-")[0] for request_id in harness.engine.running)
        assert len(running) <= 1, "a new request ran beside a suspect"
        for kind, number in running.items():
            most[kind] = max(most[kind], number)
        await asyncio.sleep(0.05)
    assert most == {"suspect": 1, "arrival": 4}
    assert {call.result() for call in [*suspects, *arrivals]} == {"20 tokens"}
    await harness.close()


@on_virtual_time
async def test_a_request_that_was_there_at_two_crashes_is_not_sent_a_third_time() -> None:
    """The deadly one is refused as poison, and the others are served."""
    harness = Harness(seats=3)
    harness.engine.deadly = {"deadly"}
    tasks = [harness.ask(name) for name in ("one", "deadly", "two")]
    assert await asyncio.gather(*tasks) == ["20 tokens", "poison", "20 tokens"]
    assert harness.supervisor.deaths[Cause.CRASH] == 2
    assert outcomes(harness.control) == {"completed": 2, "engine_lost": 1}
    await harness.close()


@on_virtual_time
async def test_after_the_last_restart_attempt_all_requests_are_answered() -> None:
    """Two failed attempts: earlier, simultaneous and later requests are refused; the engine counts as lost."""
    harness = Harness(max_restarts=2, backoff_s=3.0)
    harness.replacement.fails = 9
    early = harness.ask("early", timeout_s=59.0)
    await asyncio.sleep(0.05)
    harness.engine.die()
    await asyncio.sleep(START_S + 1)
    assert harness.supervisor.trying == "pausing for 3 s"
    await asyncio.sleep(8)
    waiting = harness.ask("waiting")
    await asyncio.sleep(START_S - 5)
    assert (early.result(), waiting.result()) == ("engine_lost", "engine_lost")
    assert (harness.replacement.started, harness.control.gateway.link.engine_lost) == (2, True)
    assert await harness.ask("later") == "engine_lost"
    assert harness.engine.errored
    await harness.close()


@on_virtual_time
async def test_while_attempts_remain_the_engine_does_not_count_as_dead() -> None:
    """vLLM ends the server when ``errored`` is true: so it is not, until no restart attempt remains."""
    harness = Harness(max_restarts=1)
    harness.replacement.fails = 1
    harness.engine.die()
    await asyncio.sleep(1)
    assert not harness.engine.errored
    await asyncio.sleep(START_S)
    assert harness.engine.errored
    await harness.close()


@on_virtual_time
async def test_out_of_memory_halves_the_limit_then_stops_admitting() -> None:
    """First: replayed, two of four seats. Second in a row: all requests are refused, until another engine has
    answered. After a healthy period all seats are open."""
    harness = Harness(seats=4, causes=(Cause.OUT_OF_MEMORY, Cause.OUT_OF_MEMORY), healthy_after_s=60.0)
    gate = harness.control.gateway.gate
    first = [harness.ask(f"first-{number}") for number in range(4)]
    await asyncio.sleep(0.05)
    harness.engine.die()
    assert set(await asyncio.gather(*first)) == {"20 tokens"}
    assert gate.desk.limit == 2
    second = [harness.ask(f"second-{number}") for number in range(4)]
    await asyncio.sleep(0.05)
    harness.engine.die()
    assert set(await asyncio.gather(*second)) == {"out_of_memory"}
    assert harness.control.not_ready() == ["the engine is not running: pausing for 1 s"]
    assert await harness.ask("meanwhile") == "out_of_memory"
    await asyncio.sleep(START_S + 2)
    assert (harness.engine_state, gate.desk.limit, harness.control.not_ready()) == (EngineState.UP, 1, [])
    assert await harness.ask("after") == "20 tokens"
    await asyncio.sleep(60)
    assert gate.desk.limit == 4
    await harness.close()


@on_virtual_time
async def test_a_recycle_is_overtaken_by_an_engine_that_dies() -> None:
    """One death, one engine started, and nothing of the recycle is counted with the next death."""
    harness = Harness()
    running = harness.ask("running", 200, timeout_s=100.0)
    await asyncio.sleep(0.5)
    harness.control.recycle(headway.Caller(actor="test"), "test")
    await asyncio.sleep(0.5)
    harness.engine.die()
    await asyncio.sleep(START_S + 1)
    assert await running == "engine_lost"
    assert (harness.engine_state, harness.control.not_ready(), harness.replacement.killed) == (EngineState.UP, [], 0)
    assert harness.supervisor.deaths == {Cause.CRASH: 1}
    assert harness.control.memory.recycled.total() == 0
    assert harness.control.audit.entries(1)[0].result == "overtaken: the engine died, and is replaced for that"
    harness.engine.die()
    await asyncio.sleep(START_S + 10)
    assert (harness.supervisor.deaths, harness.replacement.started) == ({Cause.CRASH: 2}, 2)
    await harness.close()


@on_virtual_time
async def test_a_recycle_replaces_a_running_engine_and_loses_no_request() -> None:
    """Running requests finish, new ones wait; it is no death, and uses no restart attempt."""
    harness = Harness()
    running = harness.ask("running")
    await asyncio.sleep(0.5)
    harness.control.recycle(headway.Caller(actor="test"), "test")
    await asyncio.sleep(0.1)
    assert await running == "20 tokens"
    await asyncio.sleep(START_S - 5)
    waiting = harness.ask("waiting")
    assert await waiting == "20 tokens"
    assert harness.replacement.started == 1
    assert (harness.engine_state, harness.supervisor.restarts.deaths) == (EngineState.UP, 0)
    await harness.close()


@on_virtual_time
async def test_closing_ends_an_engine_that_is_still_starting() -> None:
    """Its client no longer waits: the server can end at once."""
    harness = Harness()
    harness.engine.die()
    await asyncio.sleep(1)
    assert harness.replacement.started == 1
    harness.control.gateway.link.close_from_any_thread(None)
    await asyncio.sleep(START_S + 1)
    assert harness.replacement.killed > 0
    assert (harness.engine_state, "supervisor" in harness.tasks) == (EngineState.RESTARTING, False)
    await harness.close()


@on_virtual_time
async def test_closing_ends_the_keeper() -> None:
    """A server that is shut down starts no other engine."""
    harness = Harness()
    harness.control.gateway.link.close_from_any_thread(None)
    harness.engine.die()
    await asyncio.sleep(5)
    assert harness.replacement.started == 0
    assert "supervisor" not in harness.tasks
    await harness.close()


@on_virtual_time
async def test_an_engine_that_dies_during_a_drain_ends_its_requests_as_drained() -> None:
    """The death is no fault of a server that closes, and its running requests are answered all the same."""
    harness = Harness()
    running = harness.ask("running")
    await asyncio.sleep(0.5)
    harness.control.gateway.link.close_from_any_thread(None)
    harness.engine.die()
    assert await running == "draining"
    assert outcomes(harness.control) == {"drained": 1}
    assert not harness.control.gateway.link.engine_lost
    await harness.close()


@on_virtual_time
async def test_a_recycle_that_the_server_s_end_cuts_short_is_written_down() -> None:
    """The audit has how it ended, too."""
    harness = Harness()
    harness.control.recycle(headway.Caller(actor="test"), "test")
    await asyncio.sleep(1)
    harness.tasks.stop_all()
    await asyncio.sleep(0)
    assert harness.control.audit.entries(1)[0].result == "ended: the server closes"
    harness.engine.revive()
    harness.control.gateway.link.engine_back()
    await harness.close()
