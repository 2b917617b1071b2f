"""Shapes of hostile bytes, from pieces that parsers, patterns and splitters are known to be slow on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from hypothesis import strategies as st

from headway.api_errors import BadRequest
from headway.errors import HeadwayError
from headway.fallback.client import (
    _NotServedError,
)
from headway.fallback.sse import EventTooLargeError

KIB = 1024

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
