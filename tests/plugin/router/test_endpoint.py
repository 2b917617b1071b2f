"""The forwarded routes as an ASGI application: what a client gets where an instance is lost, or none is there.

The engine of the router is a stand-in that gives pieces, and may break off.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence

import pytest
from asgi_client import AsgiClient
from starlette.types import Message

from headway.errors import TooWideError
from headway.router.endpoint import ForwardEndpoint
from headway.router.forwarding.call import InstanceLostError, NoInstanceError
from headway.router.forwarding.forwarded import Forwarded, Piece
from headway.router.forwarding.relay import Relay, target_of

STREAM = (("content-type", "text/event-stream; charset=utf-8"),)
WHOLE = b'data: {"a":1}\n\n'


class Engine:
    """Gives these pieces, then fails with this error."""

    def __init__(self, pieces: Sequence[Piece], error: Exception) -> None:
        self.pieces, self.error = pieces, error

    async def fetch(self, request: Forwarded) -> AsyncGenerator[Piece, None]:
        for piece in self.pieces:
            yield piece
        raise self.error


async def asked(engine: Engine, path: str = "/v1/completions") -> tuple[Message, bytes, bool]:
    """The start of the answer, its body, and whether it has an end."""
    client = AsgiClient(Relay(ForwardEndpoint(lambda: engine).pieces), b"{}")  # type: ignore[arg-type, return-value]
    await client.ask(path=path)
    start, *rest = client.sent
    assert [one["type"] for one in client.sent] == ["http.response.start"] + ["http.response.body"] * len(rest)
    return start, b"".join(one["body"] for one in rest), not rest[-1].get("more_body", False)


@pytest.mark.parametrize(
    ("parts", "between"),
    [
        ((WHOLE,), b""),
        ((WHOLE, b""), b""),
        ((b'data: {"a":1}\r\n\r\n',), b""),
        ((WHOLE, b'data: {"b'), b"\n\n"),
        ((WHOLE, b'data: {"b":2}\n'), b"\n\n"),
        ((b"",), b"\n\n"),
    ],
)
async def test_an_error_event_is_an_event_of_its_own(parts: Sequence[bytes], between: bytes) -> None:
    """Where a stream breaks in the middle of an event, that event is closed first: the error is not a part of it."""
    pieces = [Piece(part, 200 if not at else None, STREAM if not at else ()) for at, part in enumerate(parts)]
    _, body, ended = await asked(Engine(pieces, InstanceLostError("a", sent=True)))
    sent = b"".join(parts)
    assert (body[: len(sent) + len(between)], ended) == (sent + between, True)
    event = body[len(sent) + len(between) :]
    assert event.startswith(b"data: ")
    assert json.loads(event.split(b"\n\n")[0].removeprefix(b"data: "))["error"]["code"] == "instance_lost"


async def test_a_body_that_breaks_has_no_end() -> None:
    """Nothing can be said in it: the connection is closed, so that its client notices."""
    pieces = [Piece(b'{"choices":', 200, (("content-type", "application/json"),))]
    _, body, ended = await asked(Engine(pieces, InstanceLostError("a", sent=True)))
    assert (body, ended) == (b'{"choices":', False)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [(InstanceLostError("a", sent=True), 502, "instance_lost"), (NoInstanceError(), 503, "not_ready")],
)
async def test_without_an_answer_the_status_says_why(error: Exception, status: int, code: str) -> None:
    """Where no instance is healthy, a request without a seat is to come again."""
    start, body, ended = await asked(Engine([], error), "/v1/models")
    said = json.loads(body)["error"]
    assert (start["status"], said["code"], ended) == (status, code, True)
    assert "ry again" in said["message"]
    headers = dict(start["headers"])
    assert (b"retry-after" in headers) is (status == 503)
    assert (headers[b"content-type"], headers[b"content-length"]) == (b"application/json", str(len(body)).encode())


async def test_a_request_that_no_instance_has_taken_was_lost_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """Every instance asked for another key: a further try is no use, and the log has the request."""
    start, body, _ = await asked(Engine([], InstanceLostError("a", sent=False)))
    said = json.loads(body)["error"]
    assert (start["status"], said["code"]) == (502, "instance_lost")
    assert said["message"] == "No instance has taken this request. The log of this server says why."
    assert "no instance has taken it" in caplog.text


async def test_a_request_of_too_many_sequences_is_the_fault_of_its_client() -> None:
    """With what it asks for and what the server takes."""
    start, body, _ = await asked(Engine([], TooWideError("the request asks for 9 sequences")))
    assert (start["status"], json.loads(body)["error"]["message"]) == (400, "the request asks for 9 sequences")


async def test_a_header_in_any_encoding_is_passed_on_byte_by_byte() -> None:
    """The HTTP client reads headers as UTF-8, and keeps what is none."""
    values = ["K\u00f6ln-\u20ac".encode(), b"K\xf6ln"]
    headers = tuple(("x-served-by", value.decode("utf-8", "surrogateescape")) for value in values)
    start, *_ = await asked(Engine([Piece(b"{}", 200, headers, last=True)], InstanceLostError("a", sent=True)))
    assert start["headers"] == [(b"x-served-by", value) for value in values]


async def test_what_this_server_says_itself_is_not_said_by_an_instance() -> None:
    """Its own date, id and class."""
    headers = (("date", "now"), ("x-headway-class", "theirs"), ("retry-after", "2"))
    start, *_ = await asked(Engine([Piece(b"{}", 200, headers, last=True)], InstanceLostError("a", sent=True)))
    assert start["headers"] == [(b"retry-after", b"2")]


@pytest.mark.parametrize(
    ("path", "raw", "query", "target"),
    [
        ("/v1/models/a/b", b"/v1/models/a%2Fb", b"x=%20&y=+", "/v1/models/a%2Fb?x=%20&y=+"),
        ("/v1/models/a", b"/v1/models/a", b"x=\xff y", "/v1/models/a?x=%FF%20y"),
        ("/v1/models/a\r\nx: \u00e4", None, b"", "/v1/models/a%0D%0Ax%3A%20%C3%A4"),
    ],
)
def test_a_target_is_forwarded_as_its_client_has_quoted_it(
    path: str, raw: bytes | None, query: bytes, target: str
) -> None:
    """And quoted where it is not: it is one line of a request."""
    assert target_of({"path": path, "raw_path": raw, "query_string": query}) == target
