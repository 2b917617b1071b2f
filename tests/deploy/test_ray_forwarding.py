"""Forwarding to replicas that are played by the test: who gets the request next, and what its client gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable

import pytest
from headway_fleet.forwarding import REPLICA, Forwarding, LostError, NoReplicaError, Response
from headway_fleet.messages import Accepted, Forwarded, Head, Lost, Message

REQUEST = Forwarded("POST", "/v1/completions?x=1", (), b"{}")
JSON = Head(200, (("content-type", "application/json"),))
EVENTS = Head(200, (("content-type", "text/event-stream; charset=utf-8"),))
BUSY = Head(429, (("x-headway-reason", "queue_full"),))


def refusal(reason: str) -> Head:
    """A 503 of a server."""
    return Head(503, (("x-headway-reason", reason),))


class Fleet:
    """Replicas by name, each with what it answers; the first that was not tried gets the request."""

    def __init__(self, **answers: list[Message | Exception]) -> None:
        self.answers = answers
        self.sent: list[str] = []
        self.cancelled: list[str] = []

    async def send(self, request: Forwarded) -> AsyncGenerator[Message, None]:
        name = next((one for one in self.answers if one not in request.tried), None)
        if name is None:
            raise NoReplicaError
        self.sent.append(name)
        ended = False
        try:
            yield Accepted(name)
            for one in self.answers[name]:
                if isinstance(one, Exception):
                    raise one
                yield one
            ended = True
        finally:
            if not ended:
                self.cancelled.append(name)

    async def answer(self) -> tuple[Response, bytes]:
        """The response to one request, and its whole body."""
        response = await Forwarding(self.send, route_s=5.0).response(REQUEST)
        return response, b"".join([piece async for piece in response.body])


DIED = LostError("the actor died")
LOSSES: list[tuple[str, list[Message | Exception]]] = [
    ("replica died before it answered", [DIED]),
    ("server died before it answered", [Lost("refused")]),
    ("died after the head", [JSON, DIED]),
    ("died within a body", [JSON, b'{"a":', Lost("reset")]),
    ("stream died before its first event", [EVENTS, DIED]),
    ("draining", [refusal("draining"), b"later"]),
    ("engine lost", [refusal("engine_lost"), b"later"]),
]


@pytest.mark.parametrize("answers", [one for _, one in LOSSES], ids=[name for name, _ in LOSSES])
async def test_a_request_whose_client_has_got_nothing_is_served_by_another_replica(
    answers: list[Message | Exception],
) -> None:
    """Once on each, and the client gets the answer of the second one alone."""
    fleet = Fleet(first=answers, second=[JSON, b'{"b":', b"2}"])
    response, body = await fleet.answer()
    assert (response.status, json.loads(body)) == (200, {"b": 2})
    assert fleet.sent == ["first", "second"]


@pytest.mark.parametrize("head", [BUSY, refusal("queue_timeout"), refusal("poison"), Head(400, ()), Head(500, ())])
async def test_any_other_answer_is_the_clients(head: Head) -> None:
    """A full queue, a time-out or an error of the request is not tried again."""
    fleet = Fleet(first=[head, b"no"], second=[JSON, b"{}"])
    response, body = await fleet.answer()
    assert (response.status, response.headers, body) == (head.status, (*head.headers, (REPLICA, "first")), b"no")
    assert fleet.sent == ["first"]


async def test_a_stream_that_breaks_off_ends_with_an_error_event() -> None:
    """It is not tried again, since its client has tokens, and it is not mistaken for a whole one."""
    fleet = Fleet(first=[EVENTS, b"data: 1\n\n", DIED], second=[EVENTS, b"data: 2\n\n"])
    response, body = await fleet.answer()
    first, event, *_ = body.decode().split("\n\n")
    assert first == "data: 1"
    assert json.loads(event.removeprefix("data: "))["error"]["code"] == "engine_lost"
    assert fleet.sent == ["first"]
    assert response.status == 200


async def test_a_long_body_that_breaks_off_breaks_the_connection() -> None:
    """Its client must not take a part for the whole."""
    fleet = Fleet(first=[JSON, b"x" * 2_000_000, DIED])
    response = await Forwarding(fleet.send, route_s=5.0).response(REQUEST)
    with pytest.raises(LostError):
        [piece async for piece in response.body]


async def test_two_lost_servers_are_the_most_for_one_request() -> None:
    """One that ends each server that runs it does not end the fleet, and its client is told not to come again."""
    fleet = Fleet(a=[DIED], b=[Lost("reset")], c=[JSON, b"{}"])
    response, body = await fleet.answer()
    headers = dict(response.headers)
    assert (response.status, headers["x-headway-reason"], headers["x-should-retry"]) == (503, "poison", "false")
    assert json.loads(body)["error"]["code"] == "poison"
    assert fleet.sent == ["a", "b"]


async def test_servers_that_could_not_be_reached_have_not_lost_a_request() -> None:
    """However many of them there are, none of them can have ended because of it."""
    gone: list[Message | Exception] = [Lost("refused", had_it=False)]
    fleet = Fleet(a=gone, b=gone, c=gone, d=[JSON, b"{}"])
    response, _ = await fleet.answer()
    assert (response.status, fleet.sent) == (200, ["a", "b", "c", "d"])
    response, _ = await Fleet(a=gone, b=gone).answer()
    assert dict(response.headers)["x-headway-reason"] == "not_ready"


async def test_where_all_drain_the_last_answer_is_the_clients() -> None:
    """With the advice of a server when to come again."""
    fleet = Fleet(a=[refusal("draining"), b"a"], b=[refusal("not_ready"), b"b"])
    response, body = await fleet.answer()
    assert (response.status, body) == (503, b"b")
    assert fleet.sent == ["a", "b"]


async def test_without_a_replica_the_client_is_told_to_come_again() -> None:
    """In time, also where nothing ever takes the request."""

    async def never(request: Forwarded) -> AsyncGenerator[Message, None]:
        await asyncio.get_running_loop().create_future()
        yield Accepted("none")

    sends: list[Callable[[Forwarded], AsyncGenerator[Message, None]]] = [Fleet().send, never]
    for send in sends:
        response = await Forwarding(send, route_s=0.01).response(REQUEST)
        headers = dict(response.headers)
        assert (response.status, headers["x-headway-reason"], headers["retry-after"]) == (503, "not_ready", "5")


@pytest.mark.parametrize("close_after", [0, 1])
async def test_a_client_that_leaves_ends_the_work(close_after: int) -> None:
    """The replica is told, whether the response had begun or not."""
    fleet = Fleet(first=[EVENTS, b"data: 1\n\n", b"data: 2\n\n"])
    response = await Forwarding(fleet.send, route_s=5.0).response(REQUEST)
    for _ in range(close_after):
        await anext(response.body)
    await response.body.aclose()
    assert fleet.cancelled == ["first"]
