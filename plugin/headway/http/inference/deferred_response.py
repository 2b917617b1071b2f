"""The deferred response: kept until the first token, so that a refusal can replace it.

    state       event       next
    HELD        START       FORWARDING   its beginning is sent, and the rest as it comes
    HELD        REFUSE      REFUSED      a refusal is sent, and nothing of the application's response
    HELD        INVALID     COMPLETE     a stream that was found invalid before its first token: an error is sent
    HELD        DISCONNECT  UNSENT       the client left before anything was sent
    FORWARDING  END         COMPLETE     its last message has been sent
    FORWARDING  REFUSE      BROKEN_OFF   the stream ends with one error event
    FORWARDING  DISCONNECT  CUT_SHORT    the client left before its end

The states without a line are final: further messages of the application are dropped, further events change nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import StrEnum
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Send

from headway.admission import RequestContext
from headway.api_errors import BadRequest, answer, error_body, error_event, refusal_headers
from headway.http.inference.fallback_route import FallbackRoute
from headway.http.inference.retries import Retries
from headway.http.inference.service_tier import TierEcho
from headway.http.inference.tenant_charge import TenantCharge
from headway_policies import Ending

#: The time for the application's last event, and again for the event that replaces it.
_LAST_EVENT_S = 1.25


class ResponseState(StrEnum):
    """The part of the response that has been sent."""

    HELD = "held"
    FORWARDING = "forwarding"
    COMPLETE = "complete"
    REFUSED = "refused"
    BROKEN_OFF = "broken_off"
    UNSENT = "unsent"
    CUT_SHORT = "cut_short"


class ResponseEvent(StrEnum):
    """An event that moves a response to another state."""

    START = "start"
    END = "end"
    REFUSE = "refuse"
    INVALID = "invalid"
    DISCONNECT = "disconnect"


#: The next state for each state and event; other events change nothing.
NEXT: dict[tuple[ResponseState, ResponseEvent], ResponseState] = {
    (ResponseState.HELD, ResponseEvent.START): ResponseState.FORWARDING,
    (ResponseState.HELD, ResponseEvent.REFUSE): ResponseState.REFUSED,
    (ResponseState.HELD, ResponseEvent.INVALID): ResponseState.COMPLETE,
    (ResponseState.HELD, ResponseEvent.DISCONNECT): ResponseState.UNSENT,
    (ResponseState.FORWARDING, ResponseEvent.END): ResponseState.COMPLETE,
    (ResponseState.FORWARDING, ResponseEvent.REFUSE): ResponseState.BROKEN_OFF,
    (ResponseState.FORWARDING, ResponseEvent.DISCONNECT): ResponseState.CUT_SHORT,
}

_OPEN = frozenset({ResponseState.HELD, ResponseState.FORWARDING})
_NOT_STARTED = frozenset({ResponseState.HELD, ResponseState.REFUSED, ResponseState.UNSENT})
_DISCONNECTED = frozenset({ResponseState.UNSENT, ResponseState.CUT_SHORT})


class DeferredResponse:
    """The layer between the application and the server's ``send`` of one request; ``retries`` where that is a retry."""

    def __init__(
        self,
        context: RequestContext,
        path: str,
        send: Send,
        queue_full_status: HTTPStatus,
        fallback: FallbackRoute | None = None,
        retries: Retries | None = None,
        charge: TenantCharge | None = None,
    ) -> None:
        self.state = ResponseState.HELD
        self._context = context
        self._path = path
        self._send = send
        self._queue_full_status = queue_full_status
        self._fallback = fallback
        self._retries = retries
        self._charge = charge
        self._tier = None if context.service_tier is None else TierEcho(path, context.service_tier)
        self._start: Message | None = None
        self._deferred: list[Message] = []
        self._cap: asyncio.Timeout | None = None

    @property
    def started(self) -> bool:
        """Whether the beginning of the application's response has been sent."""
        return self.state not in _NOT_STARTED

    @property
    def truncated(self) -> bool:
        """Whether the response began and has neither an end nor an error event, although its client stayed."""
        return self.state is ResponseState.FORWARDING

    def watched(self, receive: Receive, first: Message | None = None) -> Receive:
        """The application's ``receive``, which notices a client that disconnects before the end.

        The result returns the ``first`` message before all others, and does not keep it.
        """
        read = [] if first is None else [first]

        async def watching() -> Message:
            message = read.pop() if read else await receive()
            if message["type"] == "http.disconnect":
                self._go(ResponseEvent.DISCONNECT)
            return message

        return watching

    async def send(self, message: Message) -> None:
        """Take the next message of the response from the application."""
        if self.state not in _OPEN:
            return
        if self._refusable():
            await self._refuse()
            return
        if self.state is ResponseState.FORWARDING and self._tier is None and message.get("more_body"):
            await self._send(message)  # nearly all of a stream
            return
        start = message["type"] == "http.response.start"
        if start:
            self._start = message
        self._deferred.append(message)
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if last and self._is_invalid():
            await self._answer_invalid()
            return
        if self.started or last or (self._decided() and not start):
            await self._forward()
        if last:
            self._go(ResponseEvent.END)

    async def finish(self) -> bool:
        """The application has returned, was cancelled, or raised an error: send the refusal or the error of an invalid
        request, if it did not.

        True when there was one. The wait for a client that has stopped reading is bounded.
        """
        if self._is_invalid():
            await self._answer_invalid()
            return True
        if self.state in _OPEN and self._refusable():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_EVENT_S if self.started else None):
                    await self._refuse()
        return self._context.refused is not None and self.state not in _OPEN

    def limit(self, cap: asyncio.Timeout | None) -> None:
        """The request was aborted: bound the time for its last event. A complete answer is sent to its end.

        None: the application has returned, and its time is bounded no longer.
        """
        self._cap = cap
        if cap is not None and (self._streams_events() or not self.started):
            cap.reschedule(asyncio.get_running_loop().time() + _LAST_EVENT_S)

    def ending(self, *, crashed: bool) -> Ending:
        """How the request ended, as far as the response shows; ``crashed`` when the application raised an error."""
        context = self._context
        if self.state in _DISCONNECTED:
            return Ending.CANCELLED
        if self.state is not ResponseState.COMPLETE:
            return Ending.FAILED if crashed or context.calls_failed else Ending.CANCELLED
        status = 0 if self._start is None else self._start["status"]
        if not context.calls_failed and status < HTTPStatus.BAD_REQUEST:
            return Ending.COMPLETED
        client_error = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
        return Ending.INVALID if client_error else Ending.FAILED

    def _go(self, event: ResponseEvent) -> None:
        self.state = NEXT.get((self.state, event), self.state)

    def _streams_events(self) -> bool:
        headers = [] if self._start is None else self._start["headers"]
        return Headers(raw=headers).get("content-type", "").startswith("text/event-stream")

    def _refusable(self) -> bool:
        """Whether there is a refusal that can be sent: before the first byte, or as an event of an event stream."""
        return self._context.refused is not None and (not self.started or self._streams_events())

    def _is_invalid(self) -> bool:
        """Whether this is a stream with status 200 whose only event is an error: its status can still be changed."""
        start, context = self._start, self._context
        if self.state is not ResponseState.HELD or context.invalid is None or start is None:
            return False
        if not self._streams_events():
            return False
        return start["status"] < HTTPStatus.BAD_REQUEST and (context.permit is None or context.permit.token_s is None)

    async def _answer_invalid(self) -> None:
        invalid = self._context.invalid
        assert invalid is not None
        status = HTTPStatus(invalid.status)
        bad = BadRequest(status, invalid.message, "invalid_parameter", param=invalid.parameter)
        self._start = {"type": "http.response.start", "status": status, "headers": bad.headers}
        self._go(ResponseEvent.INVALID)
        await answer(self._send, status, bad.body(self._path), bad.headers)

    def _decided(self) -> bool:
        """Whether the status can no longer change: the request asks for no permit, or its first token has come."""
        permit = self._context.permit
        context = self._context
        if permit is None:  # a detached request never has one: its call is another's
            return context.asked.detached or not context.asked.large_grammar
        return permit.token_s is not None

    async def _forward(self) -> None:
        deferred, self._deferred = self._deferred, []
        if self._tier is not None:
            deferred = self._tier.write(deferred)
        self._go(ResponseEvent.START)
        for message in deferred:
            if message["type"] == "http.response.start":
                self._sign(message)
            await self._send(message)

    def _sign(self, start: Message) -> None:
        permit = self._context.permit
        if permit is None or start["status"] >= HTTPStatus.BAD_REQUEST:
            return
        headers = MutableHeaders(scope=start)
        headers["x-headway-class"] = permit.ticket.class_name
        if self._context.lowered is not None:
            headers.append(*self._context.lowered.header())
        headers["x-headway-queue-ms"] = str(round(permit.wait_s * 1000))
        headers["x-headway-preset"] = permit.preset_name
        if permit.degradations:
            headers["x-headway-degraded"] = permit.degradations
        if self._charge is not None:
            for name, value in self._charge.headers():
                headers.append(name.decode(), value.decode())

    async def _answered_elsewhere(self) -> bool:
        """Let another model answer, or a fixed reply. That has a time-out of its own, in place of the application's."""
        cap = None if self._cap is None or self._cap.expired() else self._cap
        if cap is not None:
            cap.reschedule(None)
        try:
            return self._fallback is not None and await self._fallback.take()
        finally:
            if cap is not None:
                cap.reschedule(asyncio.get_running_loop().time() + _LAST_EVENT_S)

    async def _refuse(self) -> None:
        refused = self._context.refused
        assert refused is not None
        self._go(ResponseEvent.REFUSE)
        if not self.started and await self._answered_elsewhere():
            return
        status = self._queue_full_status if refused.status == HTTPStatus.TOO_MANY_REQUESTS else refused.status
        if self.started:
            event = error_event(self._path, status, str(refused), refused.reason)
            await self._send({"type": "http.response.body", "body": event, "more_body": False})
            return
        retries, full = self._retries, self._queue_full_status
        last = None if retries is None else retries.last(self._context, refused.reason, full)
        if last is not None:
            await answer(self._send, last.status, last.body(self._path), last.headers)
            return
        body = error_body(self._path, status, str(refused), refused.reason)
        headers = refusal_headers(refused, self._context.class_name)
        if self._context.lowered is not None:
            name, value = self._context.lowered.header()
            headers.append((name.encode(), value.encode()))
        await answer(self._send, status, body, headers)
