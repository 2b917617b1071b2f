"""Forwarding to replicas that are played by the test: who gets the request next, and what its client gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import httpx
import pytest
from headway_fleet.forwarding import REPLICA, Send, fetch, relay

from headway.router.forwarding.call import InstanceLostError, NoInstanceError
from headway.router.forwarding.forwarded import Forwarded, Piece

REQUEST = Forwarded("POST", "/v1/completions?x=1", (), b"{}")
JSON = (("content-type", "application/json"),)
EVENTS = (("content-type", "text/event-stream; charset=utf-8"),)
DIED = InstanceLostError("it", sent=True)
UNSENT = InstanceLostError("it", sent=False)
END = Piece(b"", last=True)
WHOLE = [Piece(b'{"b":', 200, JSON), Piece(b"2}"), END]


def refusal(reason: str, status: int = 503) -> Piece:
    """The beginning of a refusal of a server."""
    return Piece(b"no", status, (("x-headway-reason", reason),))


class Fleet:
    """Replicas by name, each with what it answers; the first that was not tried gets the request."""

    def __init__(self, **answers: list[Piece | Exception]) -> None:
        self.answers = answers
        self.sent: list[str] = []
        self.cancelled: list[str] = []

    async def send(self, request: Forwarded, tried: frozenset[str]) -> AsyncGenerator[str | Piece, None]:
        name = next((answer for answer in self.answers if answer not in tried), None)
        if name is None:
            raise NoInstanceError
        self.sent.append(name)
        ended = False
        try:
            yield name
            for one in self.answers[name]:
                if isinstance(one, Exception):
                    raise one
                yield one
            ended = True
        finally:
            if not ended:
                self.cancelled.append(name)

    async def answer(self) -> httpx.Response:
        """The response to one request."""
        return await asked(self.send)


async def asked(send: Send, route_s: float = 5.0) -> httpx.Response:
    """What a client gets of a front."""
    transport = httpx.ASGITransport(app=relay(send, route_s))
    async with httpx.AsyncClient(transport=transport, base_url="http://fleet") as client:
        return await client.post("/v1/completions?x=1", content=b"{}")


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([DIED], id="died before it answered"),
        pytest.param([Piece(b'{"a":', 200, JSON), DIED], id="died within a body"),
        pytest.param([refusal("draining"), Piece(b"later"), END], id="draining"),
        pytest.param([refusal("engine_lost"), DIED], id="engine lost"),
    ],
)
async def test_a_request_whose_client_has_got_nothing_is_served_by_another_replica(
    answers: list[Piece | Exception],
) -> None:
    """Once on each, and the client gets the answer of the second one alone."""
    fleet = Fleet(first=answers, second=[*WHOLE])
    response = await fleet.answer()
    assert (response.status_code, response.json(), response.headers[REPLICA]) == (200, {"b": 2}, "second")
    assert fleet.sent == ["first", "second"]


@pytest.mark.parametrize(
    "first",
    [
        refusal("queue_full", 429), refusal("queue_timeout"), refusal("poison"), Piece(b"no", 400), Piece(b"no", 500),
        Piece(b"no", 401),
    ],
)  # fmt: skip
async def test_any_other_answer_is_the_clients(first: Piece) -> None:
    """A full queue, a time-out or an error of the request is not tried again."""
    fleet = Fleet(first=[first, END], second=[*WHOLE])
    response = await fleet.answer()
    assert (response.status_code, tuple(response.headers.items()), response.content) == (
        first.status, (*first.headers, (REPLICA, "first")), b"no",
    )  # fmt: skip
    assert fleet.sent == ["first"]


async def test_a_client_gets_the_headers_of_its_server_but_for_those_that_serve_adds() -> None:
    """The class and the preset, too, which `headway route` says itself."""
    headers = (("date", "now"), ("server", "s"), ("x-request-id", "r"), ("x-headway-class", "batch"))
    response = await Fleet(one=[Piece(b"{}", 200, headers), END]).answer()
    assert dict(response.headers) == {"x-headway-class": "batch", REPLICA: "one"}


async def test_a_stream_that_breaks_off_ends_with_an_error_event() -> None:
    """The request is not tried again, since its client has tokens, and it is not mistaken for a whole one."""
    fleet = Fleet(first=[Piece(b"data: 1\n\n", 200, EVENTS), DIED], second=[Piece(b"data: 2\n\n", 200, EVENTS), END])
    response = await fleet.answer()
    first, event, *_ = response.text.split("\n\n")
    assert (response.status_code, first) == (200, "data: 1")
    assert json.loads(event.removeprefix("data: "))["error"]["code"] == "engine_lost"
    assert fleet.sent == ["first"]


async def test_a_long_body_that_breaks_off_breaks_the_connection() -> None:
    """Its client must not take a part for the whole."""
    fleet = Fleet(first=[Piece(b"x" * 9_000_000, 200, JSON), DIED], second=[*WHOLE])
    with pytest.raises(InstanceLostError):
        _ = [piece async for piece in fetch(fleet.send, 5.0, REQUEST)]
    assert fleet.sent == ["first"]


async def test_two_lost_servers_are_the_most_for_one_request() -> None:
    """One that ends each server that runs it does not end the fleet, and its client is told not to come again."""
    fleet = Fleet(a=[DIED], b=[DIED], c=[*WHOLE])
    response = await fleet.answer()
    headers = response.headers
    assert (response.status_code, headers["x-headway-reason"], headers["x-should-retry"]) == (503, "poison", "false")
    assert response.json()["error"]["code"] == "poison"
    assert fleet.sent == ["a", "b"]


async def test_servers_that_could_not_be_reached_have_not_lost_a_request() -> None:
    """However many of them there are, none of them can have ended because of it."""
    fleet = Fleet(a=[UNSENT], b=[UNSENT], c=[UNSENT], d=[*WHOLE])
    response = await fleet.answer()
    assert (response.status_code, fleet.sent) == (200, ["a", "b", "c", "d"])
    response = await Fleet(a=[UNSENT], b=[UNSENT]).answer()
    assert response.headers["x-headway-reason"] == "not_ready"


async def test_where_the_only_server_is_lost_the_client_may_come_again() -> None:
    """The client is told why."""
    response = await Fleet(a=[DIED]).answer()
    assert (response.status_code, response.headers["x-headway-reason"]) == (503, "engine_lost")
    assert response.headers["retry-after"] == "5"


async def test_where_all_drain_the_last_answer_is_the_clients() -> None:
    """With the advice of a server when to come again."""
    fleet = Fleet(a=[refusal("draining"), END], b=[refusal("not_ready"), Piece(b", b"), END])
    response = await fleet.answer()
    assert (response.status_code, response.content, response.headers[REPLICA]) == (503, b"no, b", "b")
    assert fleet.sent == ["a", "b"]


async def test_without_a_replica_the_client_is_told_to_come_again() -> None:
    """In time, also where nothing ever takes the request."""

    async def never(request: Forwarded, tried: frozenset[str]) -> AsyncGenerator[str | Piece, None]:
        await asyncio.get_running_loop().create_future()
        yield "none"

    sends: list[Send] = [Fleet().send, never]
    for send in sends:
        response = await asked(send, route_s=0.01)
        headers = response.headers
        assert (response.status_code, headers["x-headway-reason"], headers["retry-after"]) == (503, "not_ready", "5")


async def test_a_client_that_leaves_ends_the_work() -> None:
    """The replica is told."""
    fleet = Fleet(first=[Piece(b"data: 1\n\n", 200, EVENTS), Piece(b"data: 2\n\n"), END])
    pieces = fetch(fleet.send, 5.0, REQUEST)
    assert (await anext(pieces)).body == b"data: 1\n\n"
    await pieces.aclose()
    assert fleet.cancelled == ["first"]
