"""Readers of what clients send, each as a call that reads so many bytes of a shape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from hostile_shapes import Reads, filled, refused, text
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import headway
from headway.admission import fields_prefix
from headway.admission.engine_calls import Calls
from headway.audit import Audit, Caller
from headway.engine.fake import FakeEngine
from headway.http.admin.handlers import routes
from headway.http.admin.tokens import Role, Tokens
from headway.http.inference.middleware import AdmissionMiddleware
from headway.http.inference.request_info import read_request_info
from headway.http.limits.json_shape import JsonShape
from headway.openai.asked import read_asked
from headway.openai.routes import route_at
from headway_policies import bundled_presets

OPERATOR = "operator-token-0123456789-0123456789"
BALANCED = bundled_presets()["balanced"]
AS_JSON, AS_TEXT = [(b"content-type", b"application/json")], [(b"content-type", b"text/plain")]


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


def calls_of_one_id(shape: bytes, number: int) -> Callable[[], object]:
    """Ever more calls under the id that a client gave each of them."""

    def read() -> None:
        calls, request_id = Calls(), text(shape, 100)
        for at in range(number):
            permit: Any = SimpleNamespace(
                ticket=SimpleNamespace(id=at, seats=1), requeues=0, watched=False, begun=False, in_engine=0,
                ended_sequences=0, occupy=lambda seats: None, account=None,
            )  # fmt: skip
            calls.open(permit, request_id, 1, unstreamed=False, ends_late=False)

    return read
