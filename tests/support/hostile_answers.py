"""Readers of what other servers and files say, each as a call that reads so many bytes of a shape."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from aiohttp.helpers import HeadersMixin
from hostile_shapes import Reads, filled, refused, text
from multidict import CIMultiDict
from starlette.types import Message

from headway.fallback.answer import ClientAnswer
from headway.fallback.client import (
    MAX_ANSWER_BYTES,
    MAX_EVENT_BYTES,
    TRACING_CHARS,
    FallbackClient,
    _checked,
    _forwarded,
    _Held,
    _whole,
)
from headway.fallback.settings import FallbackSettings
from headway.fallback.sse import SseEvents
from headway_policies import parse_preset
from headway_simulator.traffic.trace import read_trace
from headway_tools.console import check_lines
from headway_tools.load.scrape import read as read_counts


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
            request: Any = SimpleNamespace(path="/v1/completions", send=send, class_name="normal", lowered=None)
            to_client = ClientAnswer(request, "model=small")
            with asyncio.Runner() as runner, refused():
                runner.run(_whole(response, to_client, _Held(MAX_ANSWER_BYTES)))

        return read

    return reads


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
