"""The states of a deferred response: its table of transitions, and what each final state means."""

from __future__ import annotations

import itertools
from http import HTTPStatus

import pytest
from starlette.types import Message

from headway.admission import RequestContext
from headway.errors import refusal
from headway.http.inference import deferred_response
from headway.http.inference.deferred_response import NEXT, DeferredResponse, ResponseEvent, ResponseState
from headway_policies import Ending, Reason

START: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
PART: Message = {"type": "http.response.body", "body": b"part", "more_body": True}
LAST: Message = {"type": "http.response.body", "body": b"last"}
DISCONNECT: Message = {"type": "http.disconnect"}
#: How a response gets to each state: messages of the application, a refusal, or a disconnect of the client.
PATHS: dict[ResponseState, tuple[Message | str, ...]] = {
    ResponseState.HELD: (START,),
    ResponseState.FORWARDING: (START, PART),
    ResponseState.COMPLETE: (START, PART, LAST),
    ResponseState.REFUSED: (START, "refuse"),
    ResponseState.BROKEN_OFF: (START, PART, "refuse"),
    ResponseState.UNSENT: (START, "disconnect"),
    ResponseState.CUT_SHORT: (START, PART, "disconnect"),
}
ENDINGS = {
    ResponseState.HELD: Ending.CANCELLED,
    ResponseState.FORWARDING: Ending.CANCELLED,
    ResponseState.COMPLETE: Ending.COMPLETED,
    ResponseState.REFUSED: Ending.CANCELLED,
    ResponseState.BROKEN_OFF: Ending.CANCELLED,
    ResponseState.UNSENT: Ending.CANCELLED,
    ResponseState.CUT_SHORT: Ending.CANCELLED,
}


class Server:
    """The server's side of one request: what it was sent."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.context = RequestContext()
        self.response = DeferredResponse(self.context, "/v1/completions", self.send, HTTPStatus.TOO_MANY_REQUESTS)

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def take(self, what: Message | str) -> None:
        """The next thing that happens."""
        if what == "disconnect":
            assert await self.response.watched(self._receive)() == DISCONNECT
        elif what == "refuse":
            self.context.rejected = refusal(Reason.TOTAL_TIMEOUT, 1)
            assert await self.response.finish()
        else:
            assert isinstance(what, dict)
            await self.response.send(what)

    async def _receive(self) -> Message:
        return DISCONNECT


async def reached(state: ResponseState) -> Server:
    """A response in this state."""
    server = Server()
    for one in PATHS[state]:
        await server.take(one)
    assert server.response.state is state
    return server


def test_the_documented_table_is_the_one_in_force() -> None:
    """Each line of the docstring is a transition, and each transition a line."""
    words = [line.split()[:3] for line in (deferred_response.__doc__ or "").splitlines() if line.startswith("    ")]
    assert words[0] == ["state", "event", "next"]
    assert [(a.lower(), b.lower(), c.lower()) for a, b, c in words[1:]] == [
        (*key, after) for key, after in NEXT.items()
    ]


@pytest.mark.parametrize("state", sorted(set(ResponseState) - {ResponseState.HELD, ResponseState.FORWARDING}))
async def test_a_final_state_stays(state: ResponseState) -> None:
    """Whatever happens then, nothing more is sent."""
    assert all((state, event) not in NEXT for event in ResponseEvent)
    server = await reached(state)
    sent = list(server.sent)
    for one in (START, PART, LAST, "disconnect"):
        await server.take(one)
    await server.response.finish()
    assert (server.response.state, server.sent) == (state, sent)


@pytest.mark.parametrize("state", ResponseState)
async def test_each_state_has_sent_what_its_name_says(state: ResponseState) -> None:
    """The application's start from the first part on; one refusal in its place, or as the last event."""
    server = await reached(state)
    statuses = [message["status"] for message in server.sent if message["type"] == "http.response.start"]
    refused = state is ResponseState.REFUSED
    assert server.response.started is bool(statuses and not refused)
    assert statuses == ([504] if refused else [200] if server.response.started else [])
    complete = bool(server.sent) and not server.sent[-1].get("more_body", False)
    assert complete is (state in (ResponseState.COMPLETE, ResponseState.REFUSED, ResponseState.BROKEN_OFF))


@pytest.mark.parametrize(("state", "crashed"), list(itertools.product(ResponseState, [False, True])))
async def test_how_a_request_ended_follows_from_the_state(state: ResponseState, crashed: bool) -> None:
    """A crash makes a failure of what is not complete, unless the client had disconnected."""
    ending = (await reached(state)).response.ending(crashed=crashed)
    left = state in (ResponseState.UNSENT, ResponseState.CUT_SHORT, ResponseState.COMPLETE)
    assert ending is (Ending.FAILED if crashed and not left else ENDINGS[state])
