"""The heartbeat: what an instance's health route and its metrics say, late or not at all, decides what it is sent.

The client of the instances is a stand-in; pool, health and engine are real.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from instance_pools import pool_of
from virtual_time import on_virtual_time

from headway.admission import loop_time_s
from headway.router.addresses import Address
from headway.router.engine import InstancesEngine
from headway.router.forwarding.call import Call, InstanceLostError
from headway.router.heartbeat import Heartbeat
from headway.router.instances.instance import InstanceLink, Lease
from headway.router.instances.reading import InstanceReading
from headway_policies.fallback import BreakerState, Verdict
from headway_policies.routing import Demand
from headway_policies.routing.health import LOST_S, SILENT_S

METRICS = "vllm:kv_cache_usage_perc 0.5\nvllm:generation_tokens_total {}\n"
LIMITED = METRICS + 'headway_limit{{kind="live"}} 32\nheadway_limit{{kind="reach"}} 32\n'
LATE = 1e9


class Instance:
    """What an instance answers its heartbeat: the status of its health route, and after how long each is answered."""

    def __init__(self) -> None:
        self.ready = self.lets_in = 200
        self.ready_s = self.metrics_s = 0.0
        self.tokens = 0
        self.missing: set[str] = set()
        self.models, self.metrics = MODELS, METRICS
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.metrics_error: Exception | None = None

    async def get(self, address: Address, path: str, within_s: float) -> tuple[int, str]:
        self.asked.append(path)
        if self.error is not None:
            raise self.error
        if path == "/metrics" and self.metrics_error is not None:
            raise self.metrics_error
        if path in self.missing:
            return 404, ""
        async with asyncio.timeout(within_s):
            await asyncio.sleep(self.metrics_s if path == "/metrics" else self.ready_s)
        self.tokens += 1
        if path == "/v1/models":
            return self.lets_in, self.models
        if path == "/props":
            return 200, '{"total_slots": 3}'
        return (200, self.metrics.format(self.tokens)) if path == "/metrics" else (self.ready, "")


class Watched:
    """One instance with four seats whose heartbeat runs."""

    def __init__(self) -> None:
        self.instance = Instance()
        self.pool = pool_of("a", heard=False)
        self.link = self.pool.links["a"]
        self.running: list[asyncio.Task[None]] = []

    async def begin(self, *, begun: bool = False) -> tuple[Lease, asyncio.Task[None]]:
        """A request that runs there, with output already or without."""
        call = Call()
        async with asyncio.timeout(LOST_S):
            lease = await self.pool.lease(call, Demand(10), frozenset())
        call.begun = begun
        self.running.append(asyncio.create_task(call.step(asyncio.sleep(LATE))))
        return lease, self.running[-1]

    @property
    def state(self) -> BreakerState:
        return self.link.health.state(loop_time_s())


MODELS = '{"data": [{"id": "tiny", "max_model_len": 4096}]}'


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    """For the length of a block; its first heartbeat was good."""
    one = Watched()
    heartbeat = Heartbeat(InstancesEngine(one.pool, one.instance))  # type: ignore[arg-type]
    await heartbeat.once()
    running = asyncio.create_task(heartbeat.run())
    try:
        yield one
    finally:
        for task in (running, *one.running):
            task.cancel()
        await asyncio.gather(running, *one.running, return_exceptions=True)


@on_virtual_time
async def test_an_instance_with_headway_has_its_own_seats_from_the_first_line_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The seats are in its metrics, which are read before it is called healthy; late metrics keep no instance away."""
    caplog.set_level(logging.INFO, "headway.router.instances.pool")
    for text, late_s, line in (
        (LIMITED, 0.0, "instance a is healthy: 32 seats"),
        (LIMITED, LATE, "instance a is healthy: 4 seats assumed, as it has not said its own"),
    ):
        caplog.clear()
        one = Watched()
        one.instance.metrics, one.instance.metrics_s = text, late_s
        await Heartbeat(InstancesEngine(one.pool, one.instance)).once()  # type: ignore[arg-type]
        assert caplog.messages == [line]


@on_virtual_time
async def test_one_that_is_not_ready_gets_nothing_though_its_requests_succeed() -> None:
    """Requests that run there end as they may; neither output nor an end lets the next request in."""
    async with watched() as one:
        lease, running = await one.begin()
        one.instance.ready = 503
        await asyncio.sleep(SILENT_S / 2)
        assert one.state is BreakerState.OPEN
        await asyncio.sleep(LOST_S * 2)
        assert (one.state, running.done()) == (BreakerState.OPEN, False)
        one.pool.answering(lease)
        one.pool.release(lease, Verdict.SUCCESS, "answered")
        assert (one.state, one.pool.open_seats()) == (BreakerState.OPEN, 0)


@on_virtual_time
async def test_silence_takes_its_seats_and_then_its_requests_without_output() -> None:
    """In two steps; a request whose output has begun is left alone, and its success does not end the silence."""
    async with watched() as one:
        (_, fresh), (lease, begun) = await one.begin(), await one.begin(begun=True)
        one.instance.ready_s = LATE
        await asyncio.sleep(SILENT_S - 0.5)
        assert one.pool.open_seats() == 4
        await asyncio.sleep(1.5)
        assert (one.state, one.pool.open_seats()) == (BreakerState.OPEN, 2)
        assert not fresh.done()
        await asyncio.sleep(LOST_S)
        assert (fresh.done(), begun.done()) == (True, False)
        with pytest.raises(InstanceLostError):
            await fresh
        one.pool.release(lease, Verdict.SUCCESS, "answered")
        assert one.state is BreakerState.OPEN


@on_virtual_time
async def test_instances_that_come_and_go_are_asked_while_they_are_there() -> None:
    """One that leaves, too, for as long as something runs there."""
    async with watched() as one:
        lease, running = await one.begin()
        other = InstanceLink(Address("b", "http://b"), 4)
        one.pool.join(other)
        await asyncio.sleep(2)
        assert other.health.state(loop_time_s()) is BreakerState.CLOSED
        one.pool.leave(one.link)
        await asyncio.sleep(LOST_S)
        assert (one.state, running.done()) == (BreakerState.CLOSED, False)
        running.cancel()
        one.pool.release(lease, Verdict.SUCCESS, "answered")
        one.pool.leave(one.link)
        await asyncio.sleep(2)
        asked = one.instance.tokens
        one.pool.leave(other)
        await asyncio.sleep(2)
        before = one.instance.tokens
        await asyncio.sleep(LOST_S)
        assert asked < one.instance.tokens == before
        again = InstanceLink(Address("a", "http://a"), 4)
        one.pool.join(again)
        await asyncio.sleep(2)
        assert again.health.state(loop_time_s()) is BreakerState.CLOSED


@on_virtual_time
async def test_metrics_that_come_late_take_nothing_from_it() -> None:
    """The instance is healthy by its health route; its load is for a while that of the last metrics that came."""
    async with watched() as one:
        await asyncio.sleep(2)
        _, running = await one.begin()
        seen = one.link.progress
        assert seen >= 2
        one.instance.metrics_s = LATE
        for kv_use, seconds in ((0.5, 12), (0.0, 18)):
            for _ in range(2 * seconds):
                await asyncio.sleep(0.5)
                assert one.state is BreakerState.CLOSED
            assert (running.done(), one.link.progress, one.link.reading.kv_use) == (False, seen, kv_use)
        one.instance.metrics_s = 0.0
        await asyncio.sleep(3)
        assert one.link.progress > seen


@on_virtual_time
async def test_an_instance_that_answers_each_in_its_time_is_not_silent() -> None:
    """Health and metrics both just in time: together they would take longer than a silence may."""
    async with watched() as one:
        one.instance.ready_s = one.instance.metrics_s = 1.9
        _, running = await one.begin()
        for _ in range(60):
            await asyncio.sleep(0.5)
            assert one.state is BreakerState.CLOSED
        assert not running.done()


@pytest.mark.parametrize("error", [aiohttp.ServerDisconnectedError(), ValueError("too long"), OSError()])
@on_virtual_time
async def test_metrics_that_fail_take_nothing_from_it(error: Exception) -> None:
    """The instance has no load that could be read, and is as healthy as it says."""
    async with watched() as one:
        _, running = await one.begin()
        one.instance.metrics_error = error
        await asyncio.sleep(5)
        assert (one.state, running.done()) == (BreakerState.CLOSED, False)


@on_virtual_time
async def test_what_one_that_drains_still_runs_makes_progress() -> None:
    """Without it an answer that comes as a whole would be taken for stalled. Where nothing runs no metrics are read."""
    async with watched() as one:
        lease, running = await one.begin()
        one.instance.ready = 503
        await asyncio.sleep(2)
        seen = one.link.progress
        await asyncio.sleep(3)
        assert (one.state, one.link.progress) == (BreakerState.OPEN, seen + 3)
        running.cancel()
        one.pool.release(lease, Verdict.SUCCESS, "answered")
        one.link.calls.clear()
        await asyncio.sleep(2)
        one.instance.asked.clear()
        await asyncio.sleep(3)
        assert set(one.instance.asked) == {"/headway/readyz"}


@on_virtual_time
async def test_plain_vllm_is_asked_for_its_health_until_another_server_is_there() -> None:
    """One with Headway has a warm-up, which only its own route tells."""
    async with watched() as one:
        one.instance.missing = {"/headway/readyz"}
        await asyncio.sleep(2)
        one.instance.asked.clear()
        await asyncio.sleep(3)
        assert set(one.instance.asked) == {"/health", "/metrics"}
        one.instance.error = aiohttp.ClientConnectionError()
        await asyncio.sleep(1.5)
        one.instance.error, one.instance.missing = None, set()
        one.instance.asked.clear()
        await asyncio.sleep(3)
        assert set(one.instance.asked) == {"/headway/readyz", "/metrics", "/v1/models"}


@on_virtual_time
async def test_a_server_without_a_health_route_or_metrics_serves() -> None:
    """Its list of models says that it is there; without that it gets nothing. A whole answer does not seem to stall."""
    async with watched() as one:
        one.instance.missing = {"/headway/readyz", "/health", "/metrics"}
        one.link.reading = InstanceReading()
        lease, running = await one.begin()
        await asyncio.sleep(LOST_S)
        assert (one.state, running.done(), lease.progress >= LOST_S - 2) == (BreakerState.CLOSED, False, True)
        one.instance.missing |= {"/v1/models"}
        await asyncio.sleep(2)
        assert one.state is BreakerState.OPEN
        one.instance.missing = set()
        await asyncio.sleep(2)
        assert one.state is BreakerState.HALF_OPEN


@on_virtual_time
async def test_a_health_route_that_computes_a_token_may_take_its_time() -> None:
    """SGLang's looks for it once a second, and says after 20 that there is none."""
    async with watched() as one:
        one.instance.models = '{"data": [{"id": "tiny", "owned_by": "sglang"}]}'
        one.link.model = None
        await asyncio.sleep(2)
        one.instance.ready_s = 15.0
        for _ in range(80):
            await asyncio.sleep(0.5)
            assert one.state is BreakerState.CLOSED
        one.instance.ready_s = LATE
        await asyncio.sleep(60)
        assert one.state is BreakerState.OPEN


@on_virtual_time
async def test_its_seats_are_known_before_it_gets_a_request(caplog: pytest.LogCaptureFixture) -> None:
    """Where its maker says them; another server in its place has its own, or those that are assumed."""
    async with watched() as one:
        for owner, seats in (("llamacpp", 3), ("nobody", 4)):
            one.instance.error = aiohttp.ClientConnectionError()
            await asyncio.sleep(1.5)
            one.instance.error = None
            one.instance.models = f'{{"data": [{{"id": "tiny", "owned_by": "{owner}"}}]}}'
            await asyncio.sleep(2)
            assert one.state is BreakerState.HALF_OPEN
            assert (one.link.seats, one.link.says_seats) == (seats, seats == 3)
        (state,) = one.pool.states()
        assert (state.maker, "seats" in state.lacks) == ("", True)


@on_virtual_time
async def test_no_connection_is_a_loss_at_once() -> None:
    """Nothing is there that could answer."""
    async with watched() as one:
        _, running = await one.begin()
        one.instance.error = aiohttp.ClientConnectionError()
        await asyncio.sleep(1.5)
        assert one.state is BreakerState.OPEN
        with pytest.raises(InstanceLostError):
            await running


@on_virtual_time
async def test_a_load_that_is_read_no_more_counts_no_more(caplog: pytest.LogCaptureFixture) -> None:
    """Requests of another client once filled it; its metrics have failed since, and its health is good."""
    async with watched() as one:
        one.instance.metrics = METRICS + "vllm:num_requests_running 4\n"
        await asyncio.sleep(2)
        assert (one.link.others, one.pool.open_seats()) == (4, 0)
        one.instance.metrics_error = aiohttp.ClientConnectionError()
        await asyncio.sleep(10)
        assert one.pool.open_seats() == 0
        await asyncio.sleep(60)
        assert (one.state, one.link.others, one.pool.open_seats()) == (BreakerState.CLOSED, 0, 4)
        assert caplog.text.count("its metrics do not answer") == 1
        one.instance.metrics_error = None
        await asyncio.sleep(2)
        assert (one.link.others, one.pool.open_seats()) == (4, 0)


@on_virtual_time
async def test_an_error_of_the_heartbeat_itself_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    """The error is logged, the instance gets nothing, and is asked on."""
    async with watched() as one:
        one.instance.error = RuntimeError("unexpected")
        await asyncio.sleep(SILENT_S + 0.5)
        assert one.state is BreakerState.OPEN
        assert "its heartbeat failed" in caplog.text
        one.instance.error = None
        await asyncio.sleep(5)
        assert one.state is BreakerState.HALF_OPEN


@on_virtual_time
async def test_the_log_says_once_which_instance_asks_for_a_key(caplog: pytest.LogCaptureFixture) -> None:
    """Its readiness and metrics are open, so that nothing else tells before the first request fails."""
    async with watched() as one:
        one.link.model, one.instance.lets_in = None, 401
        await asyncio.sleep(3)
        assert caplog.text.count("instance a answers 401: HEADWAY_INSTANCE_KEY") == 1
        one.instance.lets_in = 200
        await asyncio.sleep(2)
        assert one.pool.model() == "tiny"


def test_the_documentation_gives_the_two_times_of_silence() -> None:
    """As the policy has them."""
    page = Path(__file__).resolve().parents[3] / "deploy/site/docs/how-to/route.md"
    text = page.read_text(encoding="utf-8")
    assert f"silent for {SILENT_S:g} s, gets nothing" in text
    assert f"{LOST_S:g} s of silence" in text


@on_virtual_time
async def test_what_it_serves_is_asked_once_and_again_after_it_was_lost() -> None:
    """The longest sequence bounds what a request is charged that names no limit."""
    async with watched() as one:
        await asyncio.sleep(3)
        assert (one.pool.model(), one.pool.context_tokens()) == ("tiny", 4096)
        assert one.instance.asked.count("/v1/models") == 1
        one.instance.error = aiohttp.ClientConnectionError()
        await asyncio.sleep(1.5)
        assert (one.pool.model(), one.pool.context_tokens()) == ("", None)
        one.instance.error = None
        await asyncio.sleep(3)
        assert one.pool.context_tokens() == 4096
