"""All instances as one engine: no seat is lost whenever a request ends, and what instances answer decides what follows.

The client of the instances is a stand-in; pool, health and policies are real.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import pytest
from engines import installed
from instance_pools import pool_of
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.admission import loop_time_s
from headway.engine import Ended
from headway.openai.asked import read_asked
from headway.openai.routes import route_at
from headway.router import engine as engine_module
from headway.router import tries
from headway.router.adapter import InstancesAdapter
from headway.router.addresses import Address
from headway.router.application import open_seats
from headway.router.call import Call, InstanceLostError, NoInstanceError
from headway.router.engine import InstancesEngine
from headway.router.forwarded import CallParams, Forwarded, Headers, Piece
from headway.router.reading import Reading
from headway_policies import Load, Usage
from headway_policies.routing import Demand, InstanceSeats

REQUEST = Forwarded("POST", "/v1/completions", ())


class Answers:
    """A client of instances: those in ``refusing`` answer with that status and those headers, the others at length,
    after ``first`` at once, None for nothing. The connection to those in ``broken`` breaks after that; ``sent`` says
    whether they had the request then.
    """

    def __init__(self, first: bytes | None = b"", **refusing: tuple[int, Headers]) -> None:
        self.first = first
        self.refusing = refusing
        self.broken: set[str] = set()
        self.sent = True
        self.length_s = 3600.0
        self.asked: list[str] = []
        self.requests: list[Forwarded] = []
        self.prompt_tokens: list[int] = []

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        self.asked.append(address.name)
        self.requests.append(request)
        self.prompt_tokens.append(prompt_tokens)
        if address.name in self.refusing:
            status, headers = self.refusing[address.name]
            yield Piece(b"no", status, headers)
            yield Piece(b", and why", last=True)
            return
        if self.first is not None:
            yield Piece(self.first, 200)
        if address.name in self.broken:
            raise InstanceLostError(address.name, sent=self.sent)
        await call.step(asyncio.sleep(self.length_s))
        yield Piece(b"yes", 200 if self.first is None else None, last=True)


def engine_of(client: Answers, *names: str) -> InstancesEngine:
    """Healthy instances with four seats each."""
    return InstancesEngine(pool_of(*names), client)  # type: ignore[arg-type]


async def statuses(engine: InstancesEngine, request_id: str = "a", *, raises: bool = False) -> list[int]:
    """Run one request to its end, which is the loss of its instances where it ``raises``."""
    pieces, found = engine.generate(REQUEST, CallParams(), request_id, demand=Demand(10)), list[int]()
    with pytest.raises(InstanceLostError) if raises else nullcontext():
        found.extend([piece.status async for piece in pieces if piece.status is not None])
    return found


def held(engine: InstancesEngine) -> int:
    """Seats, calls and leases that are held anywhere."""
    links = engine.pool.links.values()
    return sum(one.sent + len(one.calls) + len(one.leases) for one in links)


async def cancelled(*asked: asyncio.Task[Any]) -> None:
    """End these requests."""
    for one in asked:
        one.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


@pytest.mark.parametrize("turns", range(12))
@pytest.mark.parametrize("how", ["cancelled", "aborted", "lost", "probing"])
@on_virtual_time
async def test_no_seat_is_lost_however_a_request_ends(how: str, turns: int) -> None:
    """In whichever turn of the loop; an instance on probation takes the next request."""
    engine = engine_of(Answers(), "a")
    link = engine.pool.links["a"]
    if how == "probing":
        engine.pool.unready(link)
        await asyncio.sleep(2)
        engine.pool.heard(link)
    asked = asyncio.create_task(statuses(engine))
    for _ in range(turns):
        await asyncio.sleep(0)
    if how == "aborted":
        await engine.abort("a")
    elif how == "lost":
        engine.pool.lost(link)
        asked.cancel()
    else:
        asked.cancel()
    with suppress(asyncio.CancelledError):
        await asked
    await asyncio.sleep(0.1)
    assert held(engine) == 0
    for _ in range(5):
        await asyncio.sleep(1)
        engine.pool.heard(link)
    assert link.health.takes(loop_time_s())


@on_virtual_time
async def test_what_an_aborted_request_holds_is_free_though_its_client_takes_nothing() -> None:
    """It is suspended where it hands a piece on."""
    engine = engine_of(Answers(), "a")
    pieces = engine.generate(REQUEST, CallParams(), "slow", demand=Demand(10))
    assert (await anext(pieces)).status == 200
    assert engine.pool.links["a"].sent == 1
    await engine.abort("slow")
    assert held(engine) == 0
    await pieces.aclose()
    assert held(engine) == 0


@on_virtual_time
async def test_requests_wait_while_all_instances_drain() -> None:
    """Their refusals are not those of the clients, before the heartbeat has noticed as well; then they are served."""
    away = (503, (("x-headway-reason", "draining"),))
    client = Answers(a=away, b=away)
    engine = engine_of(client, "a", "b")
    asked = [asyncio.create_task(statuses(engine, str(at))) for at in range(40)]
    await asyncio.sleep(5)
    assert [one.done() for one in asked] == [False] * 40
    client.refusing.clear()
    for _ in range(10):
        await asyncio.sleep(1)
        for link in engine.pool.links.values():
            engine.pool.heard(link)
    assert [link.sent for link in engine.pool.links.values()] == [1, 1], "each runs its probe"
    await cancelled(*asked)
    assert held(engine) == 0


@pytest.mark.parametrize(("first", "running"), [(b"data: ", 4), (b"", 1)])
@on_virtual_time
async def test_the_first_bytes_of_a_probe_open_all_seats(first: bytes, running: int) -> None:
    """Its end may be far; the head alone says nothing."""
    engine = engine_of(Answers(first), "a")
    link = engine.pool.links["a"]
    engine.pool.unready(link)
    await asyncio.sleep(2)
    engine.pool.heard(link)
    asked = [asyncio.create_task(statuses(engine, str(at))) for at in range(6)]
    await asyncio.sleep(0.1)
    assert (link.sent, engine.pool.open_seats()) == (running, running)
    await cancelled(*asked)
    assert held(engine) == 0


@on_virtual_time
async def test_an_instance_that_fails_gets_no_requests_after_some() -> None:
    """A 500 is tried once more, elsewhere; three in a row, and it is left alone though its health route answers."""
    client = Answers(a=(500, ()))
    engine = engine_of(client, "a", "b")
    asked = [asyncio.create_task(statuses(engine, str(at))) for at in range(12)]
    await asyncio.sleep(1)
    assert client.asked.count("a") <= 6
    assert engine.pool.links["b"].sent == 4
    assert [one.done() for one in asked] == [False] * 12
    await cancelled(*asked)


@on_virtual_time
async def test_a_failure_on_two_instances_is_passed_on() -> None:
    """It may be the request's own."""
    client = Answers(a=(500, ()), b=(500, ()), c=(500, ()))
    assert await statuses(engine_of(client, "a", "b", "c")) == [500]
    assert len(client.asked) == 2
    assert await statuses(engine_of(Answers(a=(500, ())), "a")) == [500]


@on_virtual_time
async def test_an_overload_is_passed_on_once_all_have_refused() -> None:
    """429 of each."""
    client = Answers(a=(429, ()), b=(429, ()))
    assert await statuses(engine_of(client, "a", "b")) == [429]
    assert sorted(client.asked) == ["a", "b"]


@pytest.mark.parametrize("status", [401, 403, 404])
@on_virtual_time
async def test_an_instance_with_another_key_or_model_costs_no_request(status: int) -> None:
    """All others are asked, however many of these there are. What none serves may be the client's error; that none lets
    this server in is not."""
    client = Answers(a=(status, ()), b=(status, ()), c=(status, ()))
    client.length_s = 0.1
    assert await statuses(engine_of(client, "a", "b", "c", "d")) == [200]
    alone = engine_of(Answers(a=(status, ()), b=(status, ())), "a", "b")
    expected = [] if status == 401 else [status]
    assert await statuses(alone, raises=status == 401) == expected
    assert held(alone) == 0


@on_virtual_time
async def test_an_instance_that_does_not_let_the_router_in_gets_no_requests_after_some() -> None:
    """It answers at once, so it would seem the least loaded one."""
    client = Answers(a=(401, ()))
    client.length_s = 0.5
    engine = engine_of(client, "a", "b")
    for at in range(12):
        for link in engine.pool.links.values():
            engine.pool.heard(link)  # its health route needs no key
        assert await statuses(engine, str(at)) == [200]
    assert client.asked.count("a") <= 6  # three, then probes


@pytest.mark.parametrize("status", [403, 404])
@on_virtual_time
async def test_no_client_takes_an_instance_from_others(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """By requests that it does not serve, for their class, model or origin: it stays as healthy as it was. One that it
    refuses at more length than is kept is answered all the same.
    """
    client = Answers(a=(status, ()))
    client.length_s = 0.1
    engine = engine_of(client, "a")
    for at in range(6):
        assert await statuses(engine, str(at)) == [status]
    with suppress(NoInstanceError):
        await unseated(engine)
    monkeypatch.setattr(engine_module, "_MAX_REFUSAL_BYTES", 5)
    assert await statuses(engine, raises=True) == []
    assert [link.address.name for link in engine.pool.healthy()] == ["a"]


class EndlessError(Answers):
    """Instance "a" answers with a stream that begins with an error and goes on for ever; the others as they do."""

    taken = 0

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        status = 200
        while address.name == "a":
            self.taken += 1
            assert self.taken < 100, "it is never cut"
            yield Piece(b'data: {"error": "overloaded"}\n\n', status or None)
            status = 0
        async for piece in super().exchange(address, request, call, prompt_tokens):
            yield piece


@on_virtual_time
async def test_a_refusal_as_a_stream_is_kept_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one with an error status: another instance is asked."""
    monkeypatch.setattr(engine_module, "_MAX_REFUSAL_BYTES", 1000)
    client = EndlessError()
    assert await statuses(engine_of(client, "a", "b")) == [200]
    assert 30 < client.taken < 40


def json_pieces(*parts: bytes) -> list[Piece]:
    """A JSON body as it comes, without its end."""
    first, *others = parts
    return [Piece(first, 200, (("content-type", "application/json; charset=utf-8"),)), *map(Piece, others)]


class Breaks(Answers):
    """Those in ``broken`` break off in the middle of a JSON body; all others give all of it."""

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        self.asked.append(address.name)
        for piece in json_pieces(b'{"choices":', b" [" if address.name in self.broken else b" []}"):
            yield piece
        if address.name in self.broken:
            raise InstanceLostError(address.name, sent=True)
        yield Piece(b"", last=True)


@on_virtual_time
async def test_half_a_json_body_is_not_sent() -> None:
    """Another instance is asked, and the client gets one whole body; where that breaks as well it gets none of it."""
    client = Breaks()
    client.broken = {"a"}
    engine = engine_of(client, "a", "b")
    pieces = [piece async for piece in engine.generate(REQUEST, CallParams(), "a", demand=Demand(10))]
    assert (client.asked, b"".join(one.body for one in pieces)) == (["a", "b"], b'{"choices": []}')
    assert [one.status for one in pieces] == [200]
    client.broken = {"a", "b"}
    assert await statuses(engine_of(client, "a", "b"), raises=True) == []


@on_virtual_time
async def test_a_long_json_body_is_sent_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a bound on; what came before is sent first."""
    monkeypatch.setattr(tries, "_MAX_HELD_BYTES", 13)
    kept = tries.Held()
    one, two, three = json_pieces(b"0123456789", b"0123", b"4")
    assert [kept.add(one), kept.add(two), kept.add(three)] == [[], [one, two], [three]]
    event = Piece(b"data: {}", 200, (("content-type", "text/event-stream"),))
    assert tries.Held().add(event) == [event], "a stream, whether or not its request was seen to ask for one"


async def unseated(engine: InstancesEngine) -> bytes:
    """Run one request that takes no seat to its end."""
    return b"".join([piece.body async for piece in engine.fetch(Forwarded("GET", "/v1/models", ()))])


@on_virtual_time
async def test_a_request_without_a_seat_goes_on_where_its_instance_is_lost() -> None:
    """It has none of the pool's leases, and is stopped and tried elsewhere as those that have one."""
    client = Answers(None)
    engine = engine_of(client, "a", "b")
    silent = asyncio.create_task(unseated(engine))
    await asyncio.sleep(0.1)
    engine.pool.lost(engine.pool.links["a"])
    await asyncio.sleep(0.1)
    assert client.asked == ["a", "b"]
    assert not engine.pool.links["a"].calls
    await asyncio.sleep(3600)
    assert await silent == b"yes"


@on_virtual_time
async def test_a_request_without_a_seat_is_not_tried_a_third_time() -> None:
    """Two instances that were lost with it may have been lost by it; one whose output has begun is not tried again."""
    client = Answers(None)
    client.broken = {"a", "b", "c"}
    engine = engine_of(client, "a", "b", "c")
    with pytest.raises(InstanceLostError):
        await unseated(engine)
    assert client.asked == ["a", "b"]
    client = Answers(b"data: ")
    client.broken = {"a"}
    with pytest.raises(InstanceLostError):
        await unseated(engine_of(client, "a", "b"))
    assert client.asked == ["a"]


@on_virtual_time
async def test_a_request_without_a_seat_is_answered_by_one_that_lets_the_router_in() -> None:
    """However soon the other one answers; where none does, none is there for the client."""
    client = Answers(None, a=(401, ()))
    client.length_s = 0.1
    engine = engine_of(client, "a", "b")
    assert await unseated(engine) == b"yes"
    assert client.asked == ["a", "b"]
    assert [link.address.name for link in engine.pool.healthy()] == ["a", "b"], "its other routes may need no key"
    with pytest.raises(NoInstanceError):
        await unseated(engine_of(Answers(a=(403, ())), "a"))


@on_virtual_time
async def test_a_request_without_a_seat_does_not_wait_for_an_instance() -> None:
    """None is healthy: no instance was asked, and none was lost."""
    engine = engine_of(Answers(), "a")
    engine.pool.unready(engine.pool.links["a"])
    with pytest.raises(NoInstanceError):
        await unseated(engine)


@on_virtual_time
async def test_an_instance_that_takes_no_connection_is_none() -> None:
    """It has not seen the request: there is no instance, and none that was lost with it."""
    client = Answers(None)
    client.broken, client.sent = {"a"}, False
    with pytest.raises(NoInstanceError):
        await unseated(engine_of(client, "a"))
    assert client.asked == ["a"]


@on_virtual_time
async def test_progress_is_carried_over_to_another_instance() -> None:
    """The gate sees progress in each larger number: tokens are, and another instance is for what had begun. To be given
    seats is none, so the time to the first token runs."""
    client = Answers(None)
    engine = engine_of(client, "a", "b")
    running = asyncio.create_task(statuses(engine, "a"))
    await asyncio.sleep(0.1)
    first, other = engine.pool.links["a"], engine.pool.links["b"]
    for tokens in range(1, 40):
        engine.pool.read(other, Reading(tokens=tokens), 0)
    seen = [engine.progress_of("a")]
    for tokens in (5, 5, 9):
        engine.pool.read(first, Reading(tokens=tokens), 1)
        seen.append(engine.progress_of("a"))
    engine.pool.lost(first)
    await asyncio.sleep(0.1)
    assert client.asked == ["a", "b"]
    seen.append(engine.progress_of("a"))
    engine.pool.read(other, Reading(tokens=99), 1)
    seen.append(engine.progress_of("a"))
    assert seen == [0, 1, 1, 2, 3, 4]
    await cancelled(running)
    assert engine.progress_of("a") is None


class Listener:
    """Keeps the loads that are reported."""

    def __init__(self) -> None:
        self.loads: list[Load | None] = []

    def step(self, load: Load | None, sequences: int, ended: Sequence[Ended]) -> None:
        assert (sequences, list(ended)) == (0, [])
        self.loads.append(load)


@on_virtual_time
async def test_the_load_is_that_of_the_healthy_instances() -> None:
    """Requests added up, those that this router has sent meanwhile among them; of the KV caches the fullest."""
    engine, listener = engine_of(Answers(), "a", "b", "c"), Listener()
    engine.report()
    engine.listen(listener)
    a, b, c = engine.pool.links.values()
    engine.pool.read(a, Reading(running=3, waiting=1, kv_use=0.2), 0)
    engine.pool.read(b, Reading(running=0, waiting=2, kv_use=0.6), 0)
    engine.pool.read(c, Reading(running=9, waiting=9, kv_use=0.9), 0)
    engine.pool.unready(c)
    running = asyncio.create_task(statuses(engine))
    await asyncio.sleep(0.1)
    engine.report()
    assert (engine.max_num_seqs, b.sent) == (12, 1)
    assert listener.loads == [Load(4, 3, 0.6)]
    await cancelled(running)


@on_virtual_time
async def test_exchanges_are_counted_by_how_they_ended() -> None:
    """And those that were sent again; each in the series of its instance."""
    client = Answers(None, b=(429, ()))
    client.length_s = 0.1
    engine = engine_of(client, "a", "b", "c")
    client.broken = {"a"}
    assert await statuses(engine) == [200]
    assert client.asked == ["a", "b", "c"]
    for _ in range(3):
        await asyncio.sleep(1)
        for link in engine.pool.links.values():
            engine.pool.heard(link)
    client.broken = {"a", "c"}
    assert await statuses(engine, "again", raises=True) == []
    ended = {name: dict(link.ended) for name, link in engine.pool.links.items()}
    assert ended == {"a": {"lost": 2}, "b": {"refused": 2}, "c": {"answered": 1, "lost": 1}}
    assert engine.pool.retried == 2


@on_virtual_time
async def test_a_request_that_is_aborted_ends_without_an_error() -> None:
    """Whether it runs or waits; it is counted, and an unknown one is none."""
    engine = engine_of(Answers(), "a")
    running = asyncio.create_task(statuses(engine, "running"))
    await asyncio.sleep(0.1)
    engine.pool.links["a"].known = InstanceSeats(1)
    waiting = asyncio.create_task(statuses(engine, "waiting"))
    await asyncio.sleep(0.1)
    assert engine.pool.waiting == 1
    for name in ("waiting", "running", "unknown"):
        await engine.abort(name)
    assert [await running, await waiting] == [[200], []]
    assert dict(engine.pool.links["a"].ended) == {"aborted": 1}


def completion(body: bytes) -> Forwarded:
    """A request with this body, which was read."""
    return Forwarded("POST", "/v1/completions", (), body, read_asked(route_at("/v1/completions"), body))


@on_virtual_time
async def test_a_lower_limit_of_tokens_is_sent() -> None:
    """Where the server has one; otherwise the request as it came."""
    client = Answers(None)
    client.length_s = 0.1
    engine = engine_of(client, "a")
    request = completion(b'{"max_tokens":9}')
    for most in (None, 9, 5):
        pieces = engine.generate(request, CallParams(max_tokens=most), "a", demand=Demand(10, 3))
        assert [piece.status async for piece in pieces] == [200]
    assert [one.body for one in client.requests] == [b'{"max_tokens":9}', b'{"max_tokens":9}', b'{"max_tokens":5}']
    assert client.prompt_tokens == [3, 3, 3]


class OfContext(Answers):
    """Instances of a model with so many tokens, which refuse a limit above them as vLLM does, or with this ``refusal``,
    and a body without a prompt."""

    def __init__(self, tokens: int, refusal: tuple[bytes, int] = (b"bad", 400)) -> None:
        super().__init__()
        self.tokens, self.refusal = tokens, refusal

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        self.requests.append(request)
        content = json.loads(request.body)
        bad = "prompt" not in content or content.get("max_tokens", 0) > self.tokens - len(content["prompt"])
        yield Piece(*(self.refusal if bad else (b"good", 200)))
        yield Piece(b"", last=True)


def limits_sent(client: OfContext) -> list[int | None]:
    """Of all requests since the last look."""
    found = [json.loads(one.body).get("max_tokens") for one in client.requests]
    client.requests.clear()
    return found


@on_virtual_time
async def test_a_cap_is_added_to_a_request_that_names_no_limit() -> None:
    """Unless the model's context is shorter, which is learnt with the first refusal, and from no bad request."""
    client = OfContext(8192)
    engine = engine_of(client, "a")

    async def sent(most: int, text: bytes = b'{"prompt":"a"}') -> tuple[list[int], list[int | None]]:
        pieces = engine.generate(completion(text), CallParams(max_tokens=most), "a", demand=Demand(10, 3))
        return [piece.status async for piece in pieces if piece.status], limits_sent(client)

    assert await sent(16, b'{"a":1}') == ([400], [16, None])
    assert await sent(16) == ([200], [16])
    long = b'{"prompt":"' + 8180 * b"a" + b'"}'
    assert await sent(16, long) == ([200], [16, None]), "its context has less left than the cap"
    assert await sent(16) == ([200], [16]), "which says nothing of a short prompt"
    assert await sent(32_768) == ([200], [None]), "learnt: a context is shorter than cap and prompt together"
    assert await sent(4096) == ([200], [4096])


@pytest.mark.parametrize("refusal", [(b"bad", 400), (b"TGI's", 422), (b'data: {"error":{"message":"TGI\'s"}}', 200)])
@on_virtual_time
async def test_a_cap_above_the_context_is_refused_once(refusal: tuple[bytes, int]) -> None:
    """Every later request is sent as it came, at once; TGI refuses it by another status, and in a stream."""
    client = OfContext(8192, refusal)
    engine = engine_of(client, "a")
    for expected in ([32_768, None], [None], [None]):
        request = completion(b'{"prompt":"a"}')
        pieces = engine.generate(request, CallParams(max_tokens=32_768), "a", demand=Demand(10, 3))
        assert [piece.status async for piece in pieces if piece.status] == [200]
        assert limits_sent(client) == expected


@pytest.mark.parametrize(
    ("headers", "away"),
    [
        ((("x-headway-reason", "draining"),), True),
        ((("x-headway-reason", "queue_full"),), False),
        ((("x-other", "draining"),), False),
        ((), False),
    ],
)
@on_virtual_time
async def test_which_refusals_mean_that_an_instance_serves_nobody(headers: Headers, away: bool) -> None:
    """Its reason says so: it gets nothing until its next good heartbeat."""
    client = Answers(None, a=(503, headers))
    client.length_s = 0.1
    engine = engine_of(client, "a", "b")
    assert await statuses(engine) == [200]
    assert [link.address.name for link in engine.pool.healthy()] == (["b"] if away else ["a", "b"])


def test_what_is_particular_to_instances() -> None:
    """Sizes come with the request, and what a response says is believed."""
    adapter = InstancesAdapter()
    assert adapter.seats(CallParams(3)) == 3
    assert [adapter.unstreamed(CallParams(stream=stream)) for stream in (True, False)] == [False, True]
    delays = [adapter.first_token_delay_s(Piece(b"", status)) for status in (200, None, 400)]
    assert (delays[:2], math.isnan(delays[2] or 0.0)) == ([None, None], True)
    assert adapter.usage(Piece(b"", usage=Usage(1, 2))) == Usage(1, 2)
    assert [adapter.unfinished(Piece(b"", last=last)) for last in (True, False)] == [False, True]


@on_virtual_time
async def test_what_a_draining_instance_finishes_takes_no_seats_of_the_others() -> None:
    """It has half of all seats and goes on with them; the other one is filled as before."""
    engine = engine_of(Answers(), "a", "b")
    _, parts = installed(engine, small_preset(seats=8), adapter=InstancesAdapter())
    links = engine.pool.links
    engine.pool.on_change = partial(open_seats, parts.gateway.gate, engine.pool)
    asked = [asyncio.create_task(statuses(engine, str(at))) for at in range(12)]
    await asyncio.sleep(1)
    assert (links["a"].sent, links["b"].sent) == (4, 4)
    engine.pool.unready(links["a"])
    at_b = [name for name, (call, _) in engine._calls.items() if call in links["b"].calls]
    for name in at_b:
        asked[int(name)].cancel()
    await asyncio.sleep(1)
    assert (links["a"].sent, links["b"].sent) == (4, 4), "the four that waited run there now"
    await cancelled(*asked)
    assert held(engine) == 0
    parts.tasks.stop_all()
