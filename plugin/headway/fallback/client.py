"""The fallback client: forwards one request to another model, and streams its answer back.

    1. only the two routes that every OpenAI-compatible server has, and never a request that was forwarded already: it
       carries ``x-headway-hop``, so there is one hop at most and no loop
    2. the body is forwarded with ``model`` replaced; of the headers only those for tracing; Headway's key, never the
       client's
    3. until the first byte nothing is lost: after any failure the caller gets ``NOT_SERVED`` and answers itself
    4. after the first byte a failure ends the stream with one error event

The other model is not trusted: no redirect is followed, nothing is decompressed, only JSON and event streams within
bounds are forwarded to the client, and none of its headers. The circuit breaker stops requests to a model that fails, a
bound on the exchanges those to a slow one. Neither key nor prompt is ever logged. The HTTP client, aiohttp, comes with
vLLM and is imported with the first request.

Bounds, in either direction: the bytes of one text, its JSON elements (parsing blocks the event loop, and in a thread
it would block the interpreter just as long), and the bytes that all exchanges hold together.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.types import Receive

from headway.fallback.answer import EVENTS, JSON, ClientAnswer, ClientGoneError, ForwardResult
from headway.fallback.diverted_request import DivertedRequest
from headway.fallback.settings import FallbackSettings
from headway.fallback.sse import EventTooLargeError, SseEvents
from headway_policies.fallback import BreakerState, CircuitBreaker, Degradation, Verdict

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

HOP_HEADER = "x-headway-hop"
#: The routes that can be forwarded: here, and below the base of the other API.
ROUTES = {"/v1/chat/completions": "/chat/completions", "/v1/completions": "/completions"}

#: The headers that are forwarded, and the most characters of each (W3C Trace Context: 55, and at least 512). A longer
#: value, or one with other than printable ASCII, is dropped.
TRACING_CHARS = {"traceparent": 64, "tracestate": 512, "x-request-id": 128}
MAX_REQUEST_BYTES = 8 * 1024 * 1024
MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_EVENT_BYTES = 1024 * 1024
#: Forwarded requests and whole answers, over all exchanges.
MAX_HELD_BYTES = 64 * 1024 * 1024
#: Commas, colons and opening brackets in one JSON text, those inside of its strings included.
MAX_JSON_ELEMENTS = 250_000
#: aiohttp's bound on a line of the answer's head.
MAX_HEADER_BYTES = 8190

_MAX_DIGITS = 400  # int() takes a time that grows with the square of them
_MAX_AT_ONCE = 64
_CONNECT_S = 5.0
_EARLY_S = 0.05
#: Errors of this one request, which say nothing about the other model.
_REQUEST_ERRORS = frozenset({400, 413, 422})


class _NotServedError(Exception):
    """The other model gave no answer that can be forwarded; ``verdict`` is for the circuit breaker."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__()
        self.verdict = verdict


class FallbackClient:
    """The client of the other model. Call it on one event loop only; ``close`` it there."""

    degradation = Degradation.MODEL

    def __init__(
        self,
        settings: FallbackSettings,
        *,
        breaker: CircuitBreaker | None = None,
        most_at_once: int = _MAX_AT_ONCE,
        now_s: Callable[[], float] | None = None,
    ) -> None:
        self._settings = settings
        self.breaker = breaker or CircuitBreaker()
        self._now_s = now_s or (lambda: asyncio.get_running_loop().time())
        self._most_at_once = most_at_once
        self.in_flight = 0
        self._held = _Held(MAX_HELD_BYTES)
        self._session: aiohttp.ClientSession | None = None

    @property
    def model(self) -> str:
        """The other model's name."""
        return self._settings.model

    def takes(self, path: str, headers: Mapping[str, str]) -> bool:
        """Whether this request may be forwarded: a route of both, and its first hop. Header names in lower case."""
        return path in ROUTES and HOP_HEADER not in headers

    async def serve(self, request: DivertedRequest) -> ForwardResult:
        """Let the other model answer, within its time-out and that of the request."""
        if self.in_flight >= self._most_at_once or not self.takes(request.path, request.headers):
            return ForwardResult.NOT_SERVED
        message = _forwarded(request.body, self.model)
        if message is None or not self._held.take(len(message)):
            return ForwardResult.NOT_SERVED
        try:
            number = self.breaker.begin(self._now_s())
            if number is None:
                return ForwardResult.NOT_SERVED
            answer = ClientAnswer(request, f"model={self.model}")
            headers, within_s = self._headers(request.headers), self._within_s(request.timeout_s)
            exchange = self._exchange(request.path, message, headers, answer, within_s)
            return await self._watched(number, exchange, answer, request.receive)
        finally:
            self._held.give_back(len(message))

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # ------------------------------------------------------------------ inside

    async def _watched(
        self,
        number: int,
        exchange: Coroutine[Any, Any, tuple[ForwardResult, Verdict]],
        answer: ClientAnswer,
        receive: Receive,
    ) -> ForwardResult:
        """Run an exchange, and report its result to the circuit breaker."""
        verdict = Verdict.UNDECIDED
        self.in_flight += 1
        try:
            result, verdict = await _unless_gone(exchange, answer, receive)
            return result
        finally:
            self.in_flight -= 1
            self._ended(number, verdict)

    def _within_s(self, timeout_s: float | None) -> float:
        own_s = self._settings.timeout_s
        return own_s if timeout_s is None else max(0.001, min(own_s, timeout_s))

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        sent = {
            name: headers[name] for name, most in TRACING_CHARS.items() if _is_forwardable(headers.get(name, ""), most)
        }
        sent |= {"content-type": JSON, "accept": f"{JSON}, {EVENTS}", "accept-encoding": "identity", HOP_HEADER: "1"}
        if self._settings.api_key is not None:
            sent["authorization"] = f"Bearer {self._settings.api_key}"
        return sent

    async def _exchange(
        self, path: str, message: bytes, headers: dict[str, str], answer: ClientAnswer, within_s: float
    ) -> tuple[ForwardResult, Verdict]:
        """Send the request, and forward the answer. A failure before its first byte is only logged."""
        from aiohttp import ClientError, ClientTimeout

        began_s = asyncio.get_running_loop().time()
        timeout = ClientTimeout(total=within_s, connect=min(_CONNECT_S, within_s))
        url = self._settings.url + ROUTES[path]
        try:
            async with self._opened().post(
                url, data=message, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                if _checked(response) == EVENTS:
                    await _stream(response, answer)
                else:
                    await _whole(response, answer, self._held)
        except ClientGoneError:
            return ForwardResult.CLIENT_GONE, Verdict.UNDECIDED
        except _NotServedError as error:
            return ForwardResult.NOT_SERVED, error.verdict
        except (ClientError, OSError, EventTooLargeError, ValueError) as error:  # OSError: TimeoutError as well
            log.info("the fallback model failed: %s", type(error).__name__)
            # the end of a request's own time says nothing of the model; that of the connection comes before it
            took_s, own = asyncio.get_running_loop().time() - began_s, within_s < self._settings.timeout_s
            own_end = own and isinstance(error, TimeoutError) and took_s >= within_s - _EARLY_S
            verdict = Verdict.UNDECIDED if own_end else Verdict.FAILURE
            if not answer.begun:
                return ForwardResult.NOT_SERVED, verdict
            await answer.break_off()
            return ForwardResult.BROKEN_OFF, verdict
        return ForwardResult.SERVED, Verdict.SUCCESS

    def _opened(self) -> aiohttp.ClientSession:
        """The session, opened with the first request. Each request has its own connection: an idle one may be dead."""
        if self._session is None:
            from aiohttp import ClientSession, DummyCookieJar, TCPConnector

            connector = TCPConnector(limit=self._most_at_once, force_close=True)
            self._session = ClientSession(
                connector=connector,
                cookie_jar=DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                max_line_size=MAX_HEADER_BYTES,
                max_field_size=MAX_HEADER_BYTES,
            )
        return self._session

    def _ended(self, number: int, verdict: Verdict) -> None:
        before = self.breaker.state
        self.breaker.ended(number, verdict, self._now_s())
        if self.breaker.state is not before:
            say = log.warning if self.breaker.state is BreakerState.OPEN else log.info
            say("the fallback model's circuit breaker is now %s", self.breaker.state)


class _Held:
    """The count of the bytes that all exchanges keep in memory, within a bound."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.size_bytes = 0

    def take(self, size_bytes: int) -> bool:
        """Count this many bytes more; False, and nothing is counted, where the bound does not allow it."""
        if self.size_bytes + size_bytes > self._most_bytes:
            return False
        self.size_bytes += size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Release this many bytes."""
        self.size_bytes -= size_bytes


def _is_forwardable(value: str, most_chars: int) -> bool:
    """Whether this value of a tracing header may be forwarded."""
    return 0 < len(value) <= most_chars and value.isascii() and value.isprintable()


def _forwarded(body: bytes, model: str) -> bytes | None:
    """The request for the other model; None for a body that is too large or no JSON object."""
    request = json_object(body, MAX_REQUEST_BYTES)
    if request is None:
        return None
    request.pop("priority", None)  # vLLM's own: only the class may set it
    message = json.dumps(request | {"model": model}, separators=(",", ":")).encode()
    return message if len(message) <= MAX_REQUEST_BYTES else None


def json_object(text: bytes | bytearray, most_bytes: int) -> dict[str, Any] | None:
    """The JSON object in a text; None for anything else, and for an object whose parsing would take long."""
    if len(text) > most_bytes or sum(map(text.count, (b",", b":", b"[", b"{"))) > MAX_JSON_ELEMENTS:
        return None
    try:
        value = json.loads(text, parse_int=_whole_number)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _whole_number(digits: str) -> int:
    """The whole number of these digits. Raises ValueError for more digits than any number here has."""
    if len(digits) > _MAX_DIGITS:
        raise ValueError("a number has too many digits")
    return int(digits)


def _checked(response: aiohttp.ClientResponse) -> str:
    """The content type of a good answer. Raises _NotServedError for any other answer."""
    if response.status in _REQUEST_ERRORS:
        raise _NotServedError(Verdict.SUCCESS)  # the other model works; the request is wrong
    packed = response.headers.get("content-encoding", "identity").lower() != "identity"
    kind = _kind(response.headers.get("content-type", ""))
    if response.status != HTTPStatus.OK or packed or kind not in (JSON, EVENTS):
        log.info("the fallback model answered %d; its answer is not forwarded", response.status)
        raise _NotServedError(Verdict.FAILURE)
    return kind


def _kind(content_type: str) -> str:
    """The type without its parameters, which aiohttp reads in a time that grows with the square of the length."""
    return content_type.partition(";")[0].strip().lower()


async def _whole(response: aiohttp.ClientResponse, answer: ClientAnswer, held: _Held) -> None:
    """Hand on a JSON answer once all of it is here. Raises ValueError for no JSON answer, or a too large one."""
    body = bytearray()
    try:
        async for piece in response.content.iter_any():
            if len(body) + len(piece) > MAX_ANSWER_BYTES or not held.take(len(piece)):
                raise ValueError("the answer is too large")
            body += piece
        if json_object(body, MAX_ANSWER_BYTES) is None:
            raise ValueError("the answer is no JSON object, or has too many elements")
        await answer.whole(bytes(body))
    finally:
        held.give_back(len(body))


async def _stream(response: aiohttp.ClientResponse, answer: ClientAnswer) -> None:
    """Forward whole events as they come. Raises ValueError for a stream that ends without its last event."""
    events = SseEvents(MAX_EVENT_BYTES)
    async for piece in response.content.iter_any():
        whole = events.add(piece)
        if whole:
            await answer.events(whole)
    if not events.done:
        raise ValueError("the stream ended early")
    await answer.end()


async def _unless_gone(
    exchange: Coroutine[Any, Any, tuple[ForwardResult, Verdict]], answer: ClientAnswer, receive: Receive
) -> tuple[ForwardResult, Verdict]:
    """Run an exchange as long as the client is connected. A disconnect after the whole answer changes nothing."""
    asking, leaving = asyncio.ensure_future(exchange), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done() or answer.ended:
            return await asking
        return ForwardResult.CLIENT_GONE, Verdict.UNDECIDED
    finally:
        for task in (asking, leaving):
            task.cancel()
        await asyncio.gather(asking, leaving, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
