"""`headway route` as a process, in front of processes that stand in for vLLM servers: what its clients see."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from client_connections import CONNECTIONS, drop_connections
from running_router import RunningRouter, StandIn
from running_server import wait_until
from tiers import long_form

from headway_policies import bundled_presets

pytestmark = pytest.mark.slow

REQUESTS = 40


class Fleet:
    """A router and the stand-ins behind it."""

    def __init__(self, router: RunningRouter, instances: list[StandIn]) -> None:
        self.router = router
        self.instances = instances

    def by_instance(self, what: str, **labels: str) -> list[float]:
        """A metric of each instance."""
        scrape = self.router.scrape()
        return [scrape(f"headway_instance_{what}", instance_name=one.name, **labels) for one in self.instances]

    def balanced(self) -> None:
        """Nothing is left, and every request has exactly one outcome."""
        self.router.settle()
        assert self.router.scrape().unbalanced() == []


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Starts a router in front of these stand-ins, and ends all of it."""
    with ExitStack() as stack:

        def begin(*instances: StandIn, flags: tuple[str, ...] = (), **environment: str) -> Fleet:
            for instance in instances:
                stack.enter_context(instance)
            urls = [instance.url for instance in instances]
            router = RunningRouter.before(tmp_path / "router.log", urls, "--seats", "4", *flags, **environment)
            return Fleet(stack.enter_context(router), list(instances))

        yield begin
        drop_connections()


async def ask(
    client: httpx.AsyncClient, fleet: Fleet, prompt: str, tokens: int = 8, *, stream: bool = False, **headers: str
) -> tuple[int, str]:
    """Status and text of one request."""
    content = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "stream": stream}
    answer = await client.post(f"{fleet.router.url}/v1/completions", json=content, headers=headers)
    return answer.status_code, answer.text


async def ask_all(fleet: Fleet, number: int = REQUESTS, tokens: int = 8, *, stream: bool = False) -> list[Any]:
    """That many requests at once, each with a prompt of its own, streamed or not."""
    async with httpx.AsyncClient(timeout=120, limits=CONNECTIONS) as client:
        return await asyncio.gather(
            *(ask(client, fleet, f"prompt-{at:03}", tokens, stream=stream) for at in range(number))
        )


def own_answers(answers: list[tuple[int, str]]) -> None:
    """Each request got one whole answer, to its own prompt."""
    assert Counter(status for status, _ in answers) == {200: len(answers)}
    for at, (_, text) in enumerate(answers):
        prompts = {word for word in text.replace('"', " ").split() if word.startswith("prompt-")}
        assert prompts == {f"prompt-{at:03}"}


async def test_several_instances_are_as_one_server(start: Any) -> None:
    """Requests are spread over them, no key of a client reaches them, and all routes of one server are there."""
    fleet = start(StandIn(), StandIn(), StandIn(), HEADWAY_INSTANCE_KEY="of-the-instances")
    await spreads(fleet, stream=False)
    await keeps_the_keys_of_clients(fleet)
    await asyncio.to_thread(has_everything_of_one_server, fleet)


@long_form("test_other_servers has streams")
async def test_streams_are_spread_over_the_instances(start: Any) -> None:
    """As whole answers are."""
    await spreads(start(StandIn(), StandIn(), StandIn()), stream=True)


async def spreads(fleet: Fleet, *, stream: bool) -> None:
    """No more at once on each than it has seats, each prompt to one of them, and the rest waits in the one queue.

    The time to the first token is measured of streams alone: nobody knows when that of a whole answer came.
    """
    answers = await ask_all(fleet, stream=stream)
    own_answers(answers)
    seen = [instance.seen() for instance in fleet.instances]
    assert sorted(prompt for several in seen for prompt in several) == [f"prompt-{at:03}" for at in range(REQUESTS)]
    assert all(len(several) >= REQUESTS / 6 for several in seen)
    assert sum(fleet.by_instance("exchanges_total", ended="answered")) == REQUESTS
    assert fleet.router.scrape()("headway_limit", kind="live") == 12
    assert fleet.router.scrape()("headway_desired_instances") == 3  # what ran when it began is held for minutes
    names = {sample.name for sample in fleet.router.scrape().samples}
    assert "headway_open_batches" not in names  # there is no folder for them
    first_tokens = fleet.router.scrape()("headway_time_to_first_token_seconds_count", **{"class": "normal"})
    assert first_tokens == (REQUESTS if stream else 0)
    fleet.balanced()


async def keeps_the_keys_of_clients(fleet: Fleet) -> None:
    """The instances have a key of their own; class and tenant are those that the router found."""
    headers = {"authorization": "Bearer of-the-client", "x-api-key": "k", "cookie": "c=1", "x-headway-class": "batch"}
    async with httpx.AsyncClient(timeout=60) as client:
        status, text = await ask(client, fleet, "a", **headers, **{"x-headway-tenant": "acme"})
    assert status == 200
    assert "of-the-client" not in text
    assert '"authorization":"Bearer of-the-instances"' in text
    assert '"x-headway-class":"batch","x-headway-tenant":"acme"' in text.replace(" ", "")
    assert '"cookie"' not in text
    assert '"x-api-key"' not in text


def has_everything_of_one_server(fleet: Fleet) -> None:
    """Models, probes, metrics, admin API and presets; what keeps state on one instance is not."""
    url = fleet.router.url
    assert requests.get(f"{url}/v1/models", timeout=10).json()["data"][0]["id"] == "tiny"
    assert [requests.get(f"{url}{path}", timeout=10).status_code for path in ("/health", "/headway/readyz")] == [
        200
    ] * 2
    status = fleet.router.status()
    assert (status["model"], status["limit"]["ceiling"], status["limit"]["live"]) == ("tiny", 12, 12)
    assert fleet.router.use("latency")["name"] == "latency"
    assert requests.get(f"{url}/v1/responses/resp_1", timeout=10).status_code in (404, 405)
    assert requests.post(f"{url}/v1/chat/unknown", json={}, timeout=10).status_code == 404
    plain = requests.post(f"{url}/v1/completions", "{}", headers={"content-type": "text/plain"}, timeout=10)
    assert (plain.status_code, plain.json()["error"]["code"]) == (400, "unsupported")
    assert len(fleet.by_instance("up")) == 3


async def test_the_deaths_of_instances_and_the_end_of_the_router(start: Any) -> None:
    """One of two dies at work, then the other one in a stream; both are back when the router is ended."""
    fleet = start(StandIn(step_s=0.05), StandIn(step_s=0.05))
    await loses_nothing_by_a_death(fleet)
    await ends_a_begun_stream_with_one_error_event(fleet)
    for one in fleet.instances:
        await asyncio.to_thread(one.start)
    await asyncio.to_thread(wait_until, lambda: fleet.by_instance("up") == [1, 1], "both are back")
    await refuses_at_its_end_what_waits_and_finishes_what_runs(fleet)


async def loses_nothing_by_a_death(fleet: Fleet) -> None:
    """An instance is killed at work: what it ran without a stream is answered by others, what waited as well."""
    asked = asyncio.create_task(ask_all(fleet, tokens=10))
    await asyncio.to_thread(wait_until, lambda: fleet.instances[0].running() == 4, "it runs four")
    await asyncio.to_thread(fleet.instances[0].end)
    own_answers(await asked)
    scrape = fleet.router.scrape()
    assert scrape("headway_instance_retries_total") >= 4
    assert scrape("headway_outcomes_total", outcome="completed") == REQUESTS
    assert fleet.by_instance("up") == [0, 1]
    assert scrape("headway_limit", kind="live") == 4
    fleet.balanced()


async def ends_a_begun_stream_with_one_error_event(fleet: Fleet) -> None:
    """Sent tokens cannot be taken back: no second answer follows it."""
    async with httpx.AsyncClient(timeout=60) as client:
        content = {"model": "tiny", "prompt": "a", "max_tokens": 200, "stream": True}
        async with client.stream("POST", f"{fleet.router.url}/v1/completions", json=content) as response:
            lines = response.aiter_lines()
            first = await anext(lines)
            await asyncio.to_thread(fleet.instances[1].end)
            rest = [line async for line in lines]
    assert '"text": "a 0' in first
    assert sum("instance_lost" in line for line in rest) == 1
    fleet.balanced()
    assert fleet.router.scrape()("headway_outcomes_total", outcome="failed") == 1


async def refuses_at_its_end_what_waits_and_finishes_what_runs(fleet: Fleet) -> None:
    """After SIGTERM; exit code 0."""
    asked = asyncio.create_task(ask_all(fleet, number=12, tokens=40))
    await asyncio.to_thread(wait_until, lambda: fleet.router.status()["queued"] == 4, "eight run and four wait")
    code = await asyncio.to_thread(fleet.router.stop)
    answers = Counter(status for status, _ in await asked)
    assert (code, answers) == (0, {200: 8, 503: 4})


@long_form("test_fault_table has one that hangs, test_heartbeat its silence")
async def test_a_hung_instance_loses_nothing(start: Any) -> None:
    """SIGSTOP: it answers no heartbeat, so its requests without output go elsewhere; it is used again
    when it goes on."""
    fleet = start(StandIn(step_s=0.05), StandIn(step_s=0.05))
    asked = asyncio.create_task(ask_all(fleet, tokens=10))
    await asyncio.to_thread(wait_until, lambda: fleet.instances[0].running() == 4, "it runs four")
    fleet.instances[0].signal(signal.SIGSTOP)
    own_answers(await asked)
    assert fleet.by_instance("up") == [0, 1]
    fleet.instances[0].signal(signal.SIGCONT)
    await asyncio.to_thread(wait_until, lambda: fleet.by_instance("up") == [1, 1], "it is back")
    own_answers(await ask_all(fleet))
    fleet.balanced()


@long_form("test_the_deaths_of_instances_and_the_end_of_the_router has two deaths, this one many")
async def test_a_storm_of_restarts_gives_every_request_one_answer(start: Any) -> None:
    """Each instance is killed and started again, one after the other, twice: a request is answered with its own prompt,
    or told that it was running on two that were lost."""
    fleet = start(StandIn(step_s=0.05), StandIn(step_s=0.05), StandIn(step_s=0.05))
    asked = asyncio.create_task(ask_all(fleet, number=120, tokens=10))
    for one in fleet.instances * 2:
        await asyncio.to_thread(wait_until, lambda one=one: one.running() > 0 or asked.done(), "it runs some")
        await asyncio.to_thread(one.end)
        await asyncio.to_thread(one.start)
    answers = await asked
    counts = Counter(status for status, _ in answers)
    assert set(counts) <= {200, 502}
    assert counts[200] >= len(answers) / 2
    for at, (status, text) in enumerate(answers):
        assert (f"prompt-{at:03} by" in text) is (status == 200)
        assert ("instance_lost" in text) is (status == 502)
    fleet.balanced()
    outcomes = fleet.router.scrape()
    assert outcomes("headway_outcomes_total", outcome="completed") == counts[200]
    assert outcomes("headway_outcomes_total", outcome="failed") == counts[502]


@long_form("test_fault_table has one that is gone for five seconds")
async def test_all_instances_may_be_gone_for_a_while(start: Any) -> None:
    """Requests wait, and are answered by the one that comes back at the same address."""
    fleet = start(StandIn())
    port = fleet.instances[0].port
    fleet.instances[0].end()
    await asyncio.to_thread(wait_until, lambda: fleet.by_instance("up") == [0], "it is gone")
    assert fleet.router.not_ready() == ["no instance is healthy"]
    asked = asyncio.create_task(ask_all(fleet, number=6))
    await asyncio.to_thread(wait_until, lambda: fleet.router.status()["queued"] == 6, "all wait")
    with StandIn(port=port) as again:
        own_answers(await asked)
        assert len(again.seen()) == 6
    fleet.balanced()


@long_form("test_discovery has the names")
async def test_a_name_stands_for_the_instances_at_its_addresses(tmp_path: Path) -> None:
    """Found at the start; the limit is the preset's for each that is there, not for the most that there can be."""
    with StandIn() as one:
        url = one.url.replace("http://127.0.0.1", "dns+http://localhost")
        flags = ("--seats", "64", "--preset", "latency")
        with RunningRouter.before(tmp_path / "router.log", [url], *flags, HEADWAY_SCALE_MAX="5") as router:
            fleet = Fleet(router, [one])
            own_answers(await ask_all(fleet))
            assert fleet.by_instance("up") == [1]
            seats = bundled_presets()["latency"].batching.seats
            limit = router.status()["limit"]
            assert (limit["live"], limit["ceiling"]) == (seats, 5 * 64)
            fleet.balanced()
        drop_connections()


@long_form("tests/policies/routing/test_instance_seats finds the seats")
async def test_what_an_instance_cannot_run_waits_in_front(start: Any) -> None:
    """Named with 64 seats, an instance has 4: once that shows, no more is sent there while others wait in front."""
    fleet = start(StandIn(step_s=0.05, seats=4), flags=("--seats", "64"))
    asked = asyncio.create_task(ask_all(fleet, 60, 20))

    def found() -> bool:
        sent = sum(fleet.by_instance("running", sent_by="router"))
        return 4 <= sent <= 6 and fleet.router.scrape()("headway_queue_depth") > 0

    await asyncio.to_thread(wait_until, found, "its seats are found")
    own_answers(await asked)
    fleet.balanced()
