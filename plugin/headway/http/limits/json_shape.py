"""The structure of a JSON body, counted before it is parsed: a bound on the cost of parsing.

Parsing happens on the event loop, in C and without releasing the interpreter, so a thread would not help: a body that
is too costly has to be refused. The cost is in structure, not bytes: 31 MB of one string take 30 ms, of ``{},`` 600 ms.
Only bytes outside strings are counted, so a prompt may contain any braces. Counting takes linear time, and bounded time
for each slice; it runs while the body is received, so a hostile body is refused early.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from itertools import accumulate
from typing import Final

from headway.api_errors import BadRequest

#: Objects and arrays: a conversation of thousands of messages, the tools and schemas beside it. vLLM takes 100 us each.
MAX_BRACKETS: Final = 8_192
#: Strings, keys among them.
MAX_STRINGS: Final = 32_768
#: Elements: a million token ids, and a quarter more.
MAX_COMMAS: Final = 1_310_720
#: Bytes outside strings: those ids with six digits and a blank each.
MAX_BARE_BYTES: Final = 10 * 1024 * 1024
#: Nesting: a schema inside a tool inside a request; the parser itself would go to about 1,000.
MAX_DEPTH: Final = 100

_SLICE_BYTES = 64 * 1024
_ENCODING_BYTES = 4
_STEP = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}
_NO_BRACKET = bytes(byte for byte in range(256) if byte not in _STEP)


class JsonShape:
    """The counts of the structure of one body, while it is received."""

    __slots__ = ("_bare_bytes", "_brackets", "_commas", "_depth", "_head", "_inside", "_quotes", "_torn")

    def __init__(self) -> None:
        self._head = b""
        self._inside = False
        self._torn = b""
        self._quotes = self._brackets = self._commas = self._bare_bytes = self._depth = 0

    def feed(self, chunk: bytes) -> None:
        """Count the next bytes. Raises BadRequest as soon as one count is too large."""
        if len(self._head) < _ENCODING_BYTES:
            self._head += chunk[:_ENCODING_BYTES]
        for at in range(0, len(chunk), _SLICE_BYTES):
            self._count(chunk[at : at + _SLICE_BYTES])

    def close(self) -> None:
        """The body is complete. Raises BadRequest when it is UTF-16 or UTF-32, of which the counts mean nothing."""
        if json.detect_encoding(self._head[:_ENCODING_BYTES]) not in ("utf-8", "utf-8-sig"):
            text = "A JSON body must be UTF-8 (RFC 8259)."
            raise BadRequest(HTTPStatus.BAD_REQUEST, text, "body_not_utf8")

    def _count(self, chunk: bytes) -> None:
        pieces = self._unescaped(chunk).split(b'"')
        bare = b"".join(pieces[1 if self._inside else 0 :: 2])
        self._inside ^= len(pieces) % 2 == 0
        self._quotes += len(pieces) - 1
        self._bare_bytes += len(bare)
        self._commas += bare.count(b",")
        marks = bare.translate(None, _NO_BRACKET)
        self._brackets += marks.count(b"{") + marks.count(b"[")
        self._check("objects and arrays", self._brackets, MAX_BRACKETS)
        self._check("strings", self._quotes // 2, MAX_STRINGS)
        self._check("elements", self._commas, MAX_COMMAS)
        self._check("bytes outside strings", self._bare_bytes, MAX_BARE_BYTES)
        if marks:
            depths = list(accumulate(map(_STEP.__getitem__, marks), initial=self._depth))
            self._depth = depths[-1]
            self._check("levels", max(depths), MAX_DEPTH)

    def _unescaped(self, chunk: bytes) -> bytes:
        """The text without escaped quotes; a backslash that may belong to the next slice waits for it."""
        text = self._torn + chunk
        self._torn = b""
        if b"\\" not in text:
            return text
        if (len(text) - len(text.rstrip(b"\\"))) % 2:
            text, self._torn = text[:-1], b"\\"
        return text.replace(b"\\\\", b"").replace(b'\\"', b"")

    @staticmethod
    def _check(what: str, number: int, most: int) -> None:
        if number > most:
            text = f"The JSON body has more than the {most} {what} this server accepts."
            raise BadRequest(HTTPStatus.BAD_REQUEST, text, "body_too_complex")
