"""Hostile input costs no more than its size: every place that reads it, with sizes that double up to its bound.

Each case takes a shape, bytes that are repeated up to a size, and gives the call that reads them. Shapes are drawn, one
to three pieces one after another, from those that parsers, patterns and splitters are known to be slow on.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp.helpers import HeadersMixin
from cost_growth import kept_bytes, peak_bytes, superlinear_growth
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tiers import LONG

import headway
from headway.admission import fields_prefix
from headway.admission.engine_calls import Calls
from headway.api_errors import BadRequest
from headway.audit import Audit, Caller
from headway.engine.fake import FakeEngine
from headway.errors import HeadwayError
from headway.fallback.answer import Answer
from headway.fallback.client import (
    MAX_ANSWER_BYTES,
    MAX_EVENT_BYTES,
    TRACING_CHARS,
    FallbackClient,
    _checked,
    _forwarded,
    _Held,
    _NotServedError,
    _whole,
)
from headway.fallback.settings import FallbackSettings
from headway.fallback.sse import EventTooLargeError, SseEvents
from headway.http.admin.handlers import routes
from headway.http.admin.tokens import Role, Tokens
from headway.http.inference import timeouts
from headway.http.inference.middleware import AdmissionMiddleware
from headway.http.inference.request_info import read_request_info
from headway.http.limits import json_shape
from headway.http.limits.json_shape import JsonShape
from headway.openai.asked import read_asked
from headway.openai.routes import route_at
from headway_dashboard.sources.exposition import samples
from headway_policies import bundled_presets, parse_preset
from headway_policies.prediction.estimators import LengthEstimate
from headway_policies.queueing.fair_share import FairShare
from headway_policies.request.ticket import Ticket, Usage
from headway_simulator.traffic.trace import read_trace
from headway_tools.console import check_lines
from headway_tools.load.scrape import read as read_counts

pytestmark = pytest.mark.slow

KIB = 1024
OPERATOR = "operator-token-0123456789-0123456789"
BALANCED = bundled_presets()["balanced"]

#: Gives the call that reads so many bytes of a shape.
Reads = Callable[[bytes, int], Callable[[], object]]

ANY = (b"1", b" ", b"\t", b"0.", b"1s", b"1m", b"_", b"-", b'"', b"\\", b"\0", b"\xff", b",", b";", b"(", b"%", b"x")
BODY = (b"{", b"[", b"{},", b"[],", b"1,", b"1", b'"', b"\\", b"\\u0041", b"\\ud800", b" ", b"\0", b"\xff", b"\r\n",
        b'"a":', b'"prompt":', b'"prompt": [', b'"prompt" ', b'"background" ', b'"background": ', b'"stream" ',
        b'"max_tokens": 1', b'"max_', b'"service_tier"', b";base64,", b'"data:;base64,', b"data:",
        b"1" * 400 + b",")  # fmt: skip
PROMPT = (b'"messages":', b'"messages" ', b'"system":', b'"system"', b'"model":"', b'"model" :', b'"cache_salt":"',
          b'"', b" ", b"x" * 150, b"\\", b":", b"\0")  # fmt: skip
EVENT = (b"\n", b"\r", b"\r\n", b"\r\n\r", b"\n\n", b"data: ", b"\rdata: [DON", b"data: [DONE]", b"x", b"\0")
TOML = (b"a.", b"a = 1\n", b"[a]\n", b"[[a]]\n", b"{a=", b"[", b'"', b"'''", b'"""', b"\\n", b"1", b"\n", b"#", b"=",
        b"extends = 'balanced'\n", b"classes.a.b.c = 1\n", b"9" * 400)  # fmt: skip
TRACE = (b"1,2,3\n", b"1,", b'"', b"\n", b"1", b".", b"\r", b'""', b"2023-11-16 18:15:46,5,3\n", b" ", b"\0")
METRICS = (b'headway_x{a="b"} 1\n', b'a="b",', b'headway_x{a="', b"\\", b"\\n", b'"', b"{", b"# HELP headway_x ",
           b"# TYPE headway_x gauge\n", b"\n", b" ", b"1", b"}", b"headway_x ")  # fmt: skip


def shapes(units: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    """One to three units after another."""
    return st.lists(st.sampled_from(units), min_size=1, max_size=3).map(b"".join)


def filled(shape: bytes, size: int) -> bytes:
    """The shape, repeated up to a size."""
    return (shape * (size // len(shape) + 1))[:size]


def text(shape: bytes, size: int) -> str:
    """The same as the characters of a header."""
    return filled(shape, size).decode("latin-1")


@contextmanager
def refused() -> Iterator[None]:
    """All that untrusted bytes may be answered with."""
    with suppress(BadRequest, HeadwayError, EventTooLargeError, _NotServedError, ValueError):
        yield


# ------------------------------------------------------------------ the middleware


def header(name: str) -> Reads:
    """One header of a request."""

    def reads(shape: bytes, size: int) -> Callable[[], object]:
        headers = {name: text(shape, size)}
        return lambda: seen(headers, "/v1/completions", b'{"stream": true}')

    return reads


def body(path: str, begin: bytes = b"", end: bytes = b"") -> Reads:
    """The body of a request."""

    def reads(shape: bytes, size: int) -> Callable[[], object]:
        whole = begin + filled(shape, size) + end
        return lambda: seen({}, path, whole)

    return reads


def prompt(shape: bytes, size: int) -> Callable[[], object]:
    """The prompt of a body, as it is hashed for its prefix."""
    asked = read_asked(route_at("/v1/messages"), b'{"messages": "' + filled(shape, size) + b'", "system": "a"}')
    return lambda: fields_prefix(asked.route, asked.fields)


def seen(headers: Mapping[str, str], path: str, whole: bytes) -> None:
    """A request is looked at."""
    with refused():
        read_request_info(headers, route_at(path), whole, BALANCED)


def structure(shape: bytes, size: int) -> Callable[[], object]:
    """The structure of a body is counted, where nothing stops that early."""
    whole = filled(shape, size)
    return lambda: JsonShape().feed(whole)


def time_out(read: Callable[[str], float]) -> Reads:
    """The value of a time-out, longer than any that gets there."""

    def reads(shape: bytes, size: int) -> Callable[[], object]:
        value = text(shape, size)
        return lambda: read(value)

    return reads


class Call:
    """One call of an ASGI application, with its body in as many pieces as are wanted."""

    def __init__(self, app: ASGIApp, path: str, headers: list[tuple[bytes, bytes]], pieces: list[bytes], **more: Any):
        self._app = app
        self._scope = {
            "type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "path": path, "root_path": "",
            "raw_path": path.encode(), "query_string": b"", "headers": headers, "client": ("1.2.3.4", 5),
            "server": ("127.0.0.1", 8000),
        } | more  # fmt: skip
        self._pieces = pieces

    def __call__(self) -> None:
        """Make it, on a loop of its own."""
        with asyncio.Runner() as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        left = iter(self._pieces)

        async def receive() -> Message:
            piece = next(left, None)
            if piece is None:
                return {"type": "http.request", "body": b"", "more_body": False}
            return {"type": "http.request", "body": piece, "more_body": True}

        async def send(message: Message) -> None:
            pass

        await self._app(self._scope, receive, send)


async def reader(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that reads the whole body and returns its size."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


ENTRANCE = AdmissionMiddleware(reader, lambda: BALANCED)
AS_JSON, AS_TEXT = [(b"content-type", b"application/json")], [(b"content-type", b"text/plain")]


def many_headers(shape: bytes, size: int) -> Callable[[], object]:
    """Ever more headers, of a few bytes each."""
    headers = [(b"x-%d" % number, filled(shape, 8)) for number in range(size // 16)]
    return Call(ENTRANCE, "/v1/completions", [*AS_JSON, *headers], [b"{}"])


def one_header(shape: bytes, size: int) -> Callable[[], object]:
    """An answer that is not read."""
    return Call(ENTRANCE, "/v1/completions", [*AS_JSON, (b"x-other", filled(shape, size))], [b"{}"])


def through_the_entrance(shape: bytes, size: int) -> Callable[[], object]:
    """A body in one piece."""
    return Call(ENTRANCE, "/v1/completions", AS_JSON, [filled(shape, size)])


def in_pieces(app: ASGIApp, path: str, headers: list[tuple[bytes, bytes]], size: int, **more: Any) -> Reads:
    """One body of a fixed size in ever more pieces."""

    def reads(shape: bytes, number: int) -> Callable[[], object]:
        whole, length = filled(shape, size), max(1, size // number)
        return Call(app, path, headers, [whole[at : at + length] for at in range(0, size, length)], **more)

    return reads


# ------------------------------------------------------------------ the admin API


def admin() -> Starlette:
    """The admin API over an engine that does nothing."""
    control: headway.Control = headway.wrap(FakeEngine(), preset="balanced").headway
    return Starlette(routes=routes(lambda: control, Tokens({OPERATOR: Role.OPERATOR})))


ADMIN = admin()
ALLOWED = [(b"authorization", f"Bearer {OPERATOR}".encode()), (b"if-match", b'"1"'), *AS_JSON]
PRESET = "/headway/v1/preset"


def admin_header(name: bytes) -> Reads:
    """One header of an order."""

    def reads(shape: bytes, size: int) -> Callable[[], object]:
        others = [one for one in ALLOWED if one[0] != name]
        return Call(ADMIN, PRESET, [*others, (name, filled(shape, size))], [b'{"name": "nonsense"}'], method="PUT")

    return reads


def admin_body(shape: bytes, size: int) -> Callable[[], object]:
    """An order."""
    return Call(ADMIN, PRESET, ALLOWED, [b'{"name": "' + filled(shape, size)], method="PUT")


def admin_query(shape: bytes, size: int) -> Callable[[], object]:
    """The query string of a request."""
    query = b"limit=" + filled(shape, size)
    return Call(ADMIN, "/headway/v1/audit", ALLOWED, [], method="GET", query_string=query)


def admin_address(shape: bytes, size: int) -> Callable[[], object]:
    """The address in a proxy's header, from an untrusted client."""
    return Call(ADMIN, PRESET, [], [], method="PUT", client=(text(shape, size), 1))


def token(shape: bytes, size: int) -> Callable[[], object]:
    """An Authorization header."""
    tokens, value = Tokens({OPERATOR: Role.OPERATOR}), f"Bearer {text(shape, size)}"
    return lambda: tokens.role(value)


def attempts(shape: bytes, number: int) -> Callable[[], object]:
    """Ever more refused attempts, from as many addresses."""
    return lambda: audit_of(shape, number)


def audit_of(shape: bytes, number: int, role: str = "none") -> Audit:
    """An audit after so many refused attempts."""
    audit = Audit()
    for at in range(number):
        address = f"{at}{text(shape, 500)}"
        audit.refuse(Caller(role=role, address=address), "GET /headway/v1/status", "no token", preset="p", revision=1)
    return audit


# ------------------------------------------------------------------ the other model


def events(length: int) -> Reads:
    """An event stream, in pieces of so many bytes."""

    def reads(shape: bytes, size: int) -> Callable[[], object]:
        stream = filled(shape, size)
        pieces = [stream[at : at + length] for at in range(0, size, length)]

        def read() -> None:
            found = SseEvents(MAX_EVENT_BYTES)
            with refused():
                for piece in pieces:
                    found.add(piece)

        return read

    return reads


def sent_on(begin: bytes = b"", end: bytes = b"") -> Reads:
    """A request that is sent on."""

    def reads(shape: bytes, size: int) -> Callable[[], object]:
        whole = begin + filled(shape, size) + end
        return lambda: _forwarded(whole, "small")

    return reads


def traced(shape: bytes, size: int) -> Callable[[], object]:
    """The headers that go along."""
    upstream = FallbackClient(FallbackSettings("http://127.0.0.1:1/v1", "small"))
    headers = dict.fromkeys(TRACING_CHARS, text(shape, size))
    return lambda: upstream._headers(headers)


class Response(HeadersMixin):
    """The head of an answer, read by aiohttp as it reads every other."""

    status = 200

    def __init__(self, content_type: str) -> None:
        self._headers = CIMultiDict({"content-type": content_type})

    @property
    def headers(self) -> CIMultiDict[str]:
        return self._headers


def kind_of_answer(shape: bytes, size: int) -> Callable[[], object]:
    """The type of an answer, as long as aiohttp lets a header be."""

    def read() -> None:
        with refused():
            _checked(Response("application/json" + text(shape, size)))  # type: ignore[arg-type]  # all that is read of one

    return read


def answer(length: int) -> Reads:
    """A whole answer, in pieces of so many bytes."""

    def reads(shape: bytes, size: int) -> Callable[[], object]:
        whole = b'{"a": [' + filled(shape, size) + b"1]}"

        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(whole), length):
                yield whole[at : at + length]

        async def send(message: Message) -> None:
            pass

        def read() -> None:
            response: Any = SimpleNamespace(content=SimpleNamespace(iter_any=pieces))
            request: Any = SimpleNamespace(path="/v1/completions", send=send, class_name="normal")
            to_client = Answer(request, "model=small")
            with asyncio.Runner() as runner, refused():
                runner.run(_whole(response, to_client, _Held(MAX_ANSWER_BYTES)))

        return read

    return reads


# ------------------------------------------------------------------ files, scrapes and books


def preset_file(shape: bytes, size: int) -> Callable[[], object]:
    """A preset."""
    toml = text(shape, size)

    def read() -> None:
        with refused():
            parse_preset(toml, "mine.toml")

    return read


def trace_file(shape: bytes, size: int) -> Callable[[], object]:
    """A trace."""
    content = b"TIMESTAMP,ContextTokens,GeneratedTokens\n" + filled(shape, size)

    def read() -> None:
        with tempfile.TemporaryDirectory() as folder, refused():
            file = Path(folder) / "day.csv"
            file.write_bytes(content)
            read_trace(file)

    return read


def scrape(read_text: Callable[[str], object]) -> Reads:
    """The text of /metrics."""

    def reads(shape: bytes, size: int) -> Callable[[], object]:
        scraped = text(shape, size)

        def read() -> None:
            with refused():
                read_text(scraped)

        return read

    return reads


def scrape_of_a_command(scraped: str) -> None:
    """As ``fetch_metrics`` reads it."""
    check_lines(scraped)
    read_counts(scraped)


def labels(read_text: Callable[[str], object]) -> Reads:
    """One metric with ever more labels."""

    def reads(shape: bytes, number: int) -> Callable[[], object]:
        return scrape(read_text)(b"headway_x{%s} 1\n" % b",".join(b'l%d="b"' % at for at in range(number)), 16 * number)

    return reads


def calls_of_one_id(shape: bytes, number: int) -> Callable[[], object]:
    """Ever more calls under the id that a client gave each of them."""

    def read() -> None:
        calls, request_id = Calls(), text(shape, 100)
        for at in range(number):
            permit: Any = SimpleNamespace(
                ticket=SimpleNamespace(id=at, seats=1), requeues=0, watched=False, begun=False, in_engine=0,
                ended_sequences=0, occupy=lambda seats: None,
            )  # fmt: skip
            calls.open(permit, request_id, 1, unstreamed=False, ends_late=False)

    return read


#: Each reader of untrusted bytes; its shapes; and the sizes: from the first, doubling, to the last.
CASES: dict[str, tuple[Reads, tuple[bytes, ...], int, int]] = {
    **{
        f"header {name}": (header(name), ANY, 64, 64 * KIB)
        # any other is refused for its length in the same way, and its reader is measured below
        for name in ("x-llm-d-inference-ttl", "x-stainless-read-timeout", "x-headway-class", "x-headway-tenant")
    },
    "many headers": (many_headers, ANY, KIB, 256 * KIB),
    "one long header": (one_header, ANY, KIB, 256 * KIB),
    "body of a completion": (body("/v1/completions"), BODY, 4 * KIB, KIB * KIB),
    "body of prompts": (body("/v1/completions", b'{"prompt": [', b"1]}"), BODY, 4 * KIB, KIB * KIB),
    "body of a response": (body("/v1/responses", b'{"background": true, "a": [', b"1]}"), BODY, 4 * KIB, KIB * KIB),
    "body of a batch": (body("/v1/chat/completions/batch", b'{"messages": [', b"1]}"), BODY, 4 * KIB, KIB * KIB),
    "body in escapes": (body("/v1/completions", b'{"\\u0041": "', b'"}'), BODY, 4 * KIB, KIB * KIB),
    "structure of a body": (structure, BODY, 64 * KIB, KIB * KIB),
    **{
        f"time-out in {read.__name__}": (time_out(read), ANY, KIB, 64 * KIB)
        for read in (timeouts.seconds, timeouts.milliseconds, timeouts.duration, timeouts.grpc)
    },
    "prompt of a body": (prompt, PROMPT, 4 * KIB, KIB * KIB),
    "body through the middleware": (through_the_entrance, BODY, 4 * KIB, KIB * KIB),
    "JSON in pieces": (in_pieces(ENTRANCE, "/v1/completions", AS_JSON, 64 * KIB), BODY, 16, 64 * KIB),
    "text in pieces": (in_pieces(ENTRANCE, "/tokenize", AS_TEXT, 64 * KIB), BODY, 16, 64 * KIB),
    "order in pieces": (in_pieces(ADMIN, PRESET, ALLOWED, 16 * KIB, method="PUT"), BODY, 16, 16 * KIB),
    "order": (admin_body, BODY, 256, 64 * KIB),
    "query of the admin API": (admin_query, (*ANY, b"&", b"=", b"limit=1&", b"%41"), 64, 64 * KIB),
    "address of an untrusted client": (admin_address, ANY, 64, 64 * KIB),
    **{
        f"admin header {name.decode()}": (admin_header(name), ANY, 64, 64 * KIB)
        for name in (b"authorization", b"if-match", b"content-type", b"host")
    },
    "token": (token, ANY, 64, 256 * KIB),
    "refused attempts": (attempts, ANY, 16, 2048),
    "events in small pieces": (events(16), EVENT, KIB, KIB * KIB),
    "events in large pieces": (events(64 * KIB), EVENT, 4 * KIB, 4 * KIB * KIB),
    "request sent on": (sent_on(), BODY, 4 * KIB, 2 * KIB * KIB),
    "list sent on": (sent_on(b'{"a": [', b"1]}"), BODY, 4 * KIB, 2 * KIB * KIB),
    "trace headers": (traced, ANY, 64, 64 * KIB),
    "type of an answer": (kind_of_answer, ANY, 64, 8 * KIB),
    "answer": (answer(64 * KIB), BODY, 4 * KIB, 2 * KIB * KIB),
    "answer in small pieces": (answer(64), BODY, 4 * KIB, 512 * KIB),
    "preset": (preset_file, TOML, 256, 128 * KIB),
    "trace": (trace_file, TRACE, KIB, 256 * KIB),
    "scrape of the dashboard": (scrape(lambda scraped: list(samples(scraped))), METRICS, KIB, 256 * KIB),
    "scrape of the command": (scrape(scrape_of_a_command), METRICS, KIB, 256 * KIB),
    "labels for the dashboard": (labels(lambda scraped: list(samples(scraped))), (b"x",), 256, 64 * KIB),
    "labels for the command": (labels(scrape_of_a_command), (b"x",), 256, 64 * KIB),
    "calls of one id": (calls_of_one_id, ANY, 16, 4096),
}

#: Random shapes of each, beside the known one.
SHAPES = 10 if LONG else 1

BLANKS = b" " * 500
#: Shapes that were found to cost the square of their size, or look as if they might; each is tried at every run.
KNOWN = {
    "header x-llm-d-inference-ttl": (b"1",),
    "body of a completion": (
        b'"max_tokens"' + 2 * BLANKS, b'"max_tokens"' + BLANKS + b":" + BLANKS, b'"stream"' + BLANKS + b":" + BLANKS,
        b'"max_tokens":1,', b'"max_', b"1", b'\\u0041', b'\\u004', b"\\", b'"', b"{},", b"[", b"1,", b";base64,",
        b'data:;base64,A","', b'x", "service_tier": "',
    ),
    "structure of a body": (b'"', b"\\", b"{},", b"[", b"1,"),
    "prompt of a body": (
        b'"prompt"' + BLANKS + b":" + BLANKS, b'"model"' + BLANKS + b":" + BLANKS, b'"messages"' + 2 * BLANKS,
        b'"cache_salt":"', b'"messages":"instructions":"input":',
    ),
    **dict.fromkeys((f"time-out in {name}" for name in ("seconds", "milliseconds", "duration", "grpc")), (b"1", b"1s")),
    "events in small pieces": (b"x",),
    "type of an answer": (b'"',),
    "preset": (b"a.",),
    "calls of one id": (b"x",),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_cost_grows_no_faster_than_the_size(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever shape the bytes have: sixteen times as many cost at most forty times as much."""
    reads, units, first, last = CASES[case]
    for bound in ("MAX_BRACKETS", "MAX_STRINGS", "MAX_COMMAS", "MAX_BARE_BYTES", "MAX_DEPTH"):
        monkeypatch.setattr(json_shape, bound, 1 << 60)

    def grows(shape: bytes) -> None:
        assert superlinear_growth(lambda size: reads(shape, size), first, last) == "", shape

    for shape in KNOWN.get(case, units[:1]):
        grows(shape)
    limits = settings(max_examples=SHAPES, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    limits(given(shapes(units))(grows))()


#: In place of the thousands of tenants that a line remembers.
FEW = 256
#: What is kept of untrusted clients, after so many of them; from the first number on it is full.
KEPT: dict[str, tuple[Callable[[int], object], int]] = {
    "attempts without a token": (lambda number: audit_of(b"x", number), 200),
    "attempts of a viewer": (lambda number: audit_of(b"x", number, role="viewer"), 400),
    "attempts that are repeated": (lambda number: repeated(number), 50),
    "tenants with a fair share": (lambda number: fair_line_of(number), 2 * FEW),
    "tenants with a history": (lambda number: histories_of(number), 2048),
}


def repeated(number: int) -> Audit:
    """An audit after the same attempt again and again."""
    audit = Audit()
    for _ in range(number):
        audit.refuse(Caller(address="1.2.3.4"), "GET /headway/v1/status", "no token", preset="p", revision=1)
    return audit


def fair_line_of(number: int) -> FairShare:
    """A fair-share discipline after requests of so many tenants."""
    line = FairShare()
    for at in range(number):
        ticket = Ticket(at, "normal", float(at), tenant=f"{at:0128}")
        line.push(ticket, 10.0, float(at))
        line.charge(ticket, 10.0)
        line.remove(at)
    return line


def histories_of(number: int) -> LengthEstimate:
    """The length statistics of so many tenants."""
    lengths = LengthEstimate()
    for at in range(number):
        lengths.ended(Ticket(at, "normal", 0.0, tenant=f"{at:0128}", max_tokens=16), Usage(5, 5))
    return lengths


@pytest.mark.parametrize("case", KEPT)
def test_what_is_kept_of_strangers_has_an_end(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times as many, once it is full, are kept in the same memory."""
    monkeypatch.setattr("headway_policies.queueing.fair_share.RECENT", FEW)
    keep, full = KEPT[case]
    once = kept_bytes(lambda: keep(full))
    assert kept_bytes(lambda: keep(4 * full)) <= 1.5 * once


def test_a_long_id_is_not_kept() -> None:
    """A client may name its request as it likes; what is written down of the name has an end, and stays apart."""
    calls, permit = Calls(), SimpleNamespace(
        ticket=SimpleNamespace(id=1, seats=9), requeues=0, watched=False, begun=False, in_engine=0, ended_sequences=0,
        occupy=lambda seats: None,
    )  # fmt: skip
    names = ["x" * 100_000, "x" * 100_001, "x" * 100_000, "a\nERROR forged line\x1b[31m", "\ud800", "plain"]
    ids = [calls.open(permit, name, 1, unstreamed=False, ends_late=False).id for name in names]  # type: ignore[arg-type]  # all that is asked of one
    assert len(set(ids)) == len(ids)
    assert all(len(one) < 230 and one.isprintable() for one in ids)
    assert ids[-1] == "plain"


@pytest.mark.parametrize("shape", [b"x", b'"', b"1,", b"{},"])
def test_an_answer_holds_no_more_than_its_size_while_it_comes(shape: bytes) -> None:
    """Memory grows in proportion to what the other model sends, in however small pieces."""
    small, large = (peak_bytes(answer(64)(shape, size)) for size in (16 * KIB, 256 * KIB))
    assert large <= 40 * max(small, 64 * KIB)
