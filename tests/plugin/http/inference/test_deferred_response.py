"""The states of a deferred response: its table of transitions, and what each final state means."""

from __future__ import annotations

import itertools
import json
from http import HTTPStatus
from unittest.mock import create_autospec

import pytest
from starlette.types import Message

from headway.admission import RequestContext
from headway.admission.permit import Permit
from headway.engine import Invalid
from headway.errors import refusal
from headway.http.inference import deferred_response
from headway.http.inference.deferred_response import NEXT, DeferredResponse, ResponseEvent, ResponseState
from headway.openai.asked import Asked
from headway_policies import Ending, Reason, Ticket

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


EVENT: Message = {"type": "http.response.body", "body": b'data: {"error": {"code": 400}}\n\n', "more_body": True}
PLAIN: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}


def permit(token_s: float | None) -> Permit:
    """One that was admitted, and had its first token then."""
    ticket = Ticket(1, "normal", 0.0)
    return create_autospec(  # type: ignore[no-any-return]  # a Permit as far as it is read
        Permit,
        instance=True,
        token_s=token_s,
        refused=None,
        ticket=ticket,
        preset_name="p",
        degradations="",
        wait_s=0.0,
    )


async def test_a_stream_that_is_invalid_from_the_beginning_has_the_status_of_its_error() -> None:
    """In the format of the route, and nothing of the event in a 200; it counts as invalid."""
    server = Server()
    server.context.permit, server.context.calls_failed = permit(token_s=None), 1
    await server.take(START)
    server.context.invalid = Invalid(422, "logit_bias: too wide", "logit_bias")
    await server.take(EVENT)
    assert server.sent == []
    await server.take(LAST)
    start, answered = server.sent
    error = json.loads(answered["body"])["error"]
    assert (start["status"], error["param"], error["code"]) == (422, "logit_bias", "invalid_parameter")
    assert error["message"] == "logit_bias: too wide"
    assert server.response.ending(crashed=False) is Ending.INVALID
    await server.take(PART)
    assert len(server.sent) == 2


async def test_a_stream_that_breaks_off_as_invalid_has_its_status_too() -> None:
    """One route of vLLM raises the error instead of sending an event; and a check before the seat has no permit yet."""
    server = Server()
    server.context.asked = Asked(large_grammar=True)
    await server.take(START)
    await server.take(EVENT)
    assert server.sent == []
    server.context.invalid = Invalid(400, "the grammar is too large")
    assert await server.response.finish()
    assert [one.get("status") for one in server.sent] == [400, None]
    assert server.response.ending(crashed=True) is Ending.INVALID


@pytest.mark.parametrize(("start", "token_s"), [(PLAIN, None), (START | {"status": 400}, None), (START, 1.0)])
async def test_any_other_response_is_the_applications_own(start: Message, token_s: float | None) -> None:
    """A whole answer has its status; after the first token it is too late for another one."""
    server = Server()
    server.context.permit = permit(token_s)
    server.context.invalid = Invalid(400, "too late")
    for one in (start, EVENT, LAST):
        await server.take(one)
    assert [one.get("status") for one in server.sent] == [start["status"], None, None]
    assert b"".join(one.get("body", b"") for one in server.sent) == EVENT["body"] + LAST["body"]


@pytest.mark.parametrize(("state", "crashed"), list(itertools.product(ResponseState, [False, True])))
async def test_how_a_request_ended_follows_from_the_state(state: ResponseState, crashed: bool) -> None:
    """A crash makes a failure of what is not complete, unless the client had disconnected."""
    ending = (await reached(state)).response.ending(crashed=crashed)
    left = state in (ResponseState.UNSENT, ResponseState.CUT_SHORT, ResponseState.COMPLETE)
    assert ending is (Ending.FAILED if crashed and not left else ENDINGS[state])
