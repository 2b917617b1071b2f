"""The harmless parts of an argument that may be content, for a log line: numbers, names in the code, request ids."""

from __future__ import annotations

import re
from enum import Enum
from numbers import Number

from headway.errors import Refused
from headway.tracing import CURRENT_REQUEST

#: An id that vLLM makes for a request: a word for the route, the id of its client if it sent one, and a random part.
_ID = re.compile(
    r"(?:chatcmpl|classify|cmpl|decision|embd|generate-tokens|generative-scoring|msg|pooling|rerank|resp|score"
    r"|tokenize|transcribe|translate)[-_](?:[!#-&(-+\--\[\]-~]{1,128}-)?[0-9a-f]{16,32}(?:[-_~][0-9a-z]{1,36}){0,4}"
)
_WORD = re.compile(r"[!#-&(-\[\]-~]{1,200}")
_MAX_IDS_CHARS = 2_000

#: Fixed words that vLLM passes as arguments of its request log.
_FIXED = frozenset({"", " (streaming delta)", " (streaming complete)"})


class Hidden:
    """The stand-in for a hidden argument in a log line; any conversion to text says what kind of thing that was."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __str__(self) -> str:
        return f"[{self._what} hidden]"

    __repr__ = __str__


def shown(value: object) -> object:
    """The argument of a log line, or what stands for it. Nothing of what is hidden is converted to text."""
    if value is None or isinstance(value, Number | Enum | Refused | Hidden):  # a refusal says nothing of its request
        return value
    if isinstance(value, str):
        return value if value in _FIXED or _is_id(value) else Hidden(f"{len(value)} characters")
    return Hidden(type(value).__name__)


def _is_id(value: str) -> bool:
    """Whether the text is the id of the current request, or ids as vLLM makes them, with commas between them."""
    if len(value) > _MAX_IDS_CHARS:
        return False
    current = CURRENT_REQUEST.get()
    if current is not None and current.engine_id in value and _WORD.fullmatch(value):
        return True
    return all(_ID.fullmatch(part) for part in value.split(","))
