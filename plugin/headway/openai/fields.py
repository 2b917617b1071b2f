"""The fields of a JSON body, decoded in one pass.

msgspec leaves every value as the bytes it is, without building an object. A body that it refuses and Python's parser
accepts (NaN, a lone surrogate, a byte order mark, another encoding) is parsed as vLLM parses it. Of a repeated key the
last one counts, in both. All of it is linear in the bytes.

vLLM's models convert: ``"n": "8"`` and ``"n": 8.0`` mean 8, ``"stream": "yes"`` means true. So does this module.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

#: The values of an object by their keys, in the order of the body.
Fields = Mapping[str, Raw]

#: The limits of the output, by any of their names.
LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
#: The fields that may hold several prompts, on any route.
PROMPTS: Final = (
    "prompt", "prompt_embeds", "inputs", "texts", "images", "queries", "documents", "items", "questions", "text_1",
    "text_2", "data_1", "data_2",
)  # fmt: skip
#: The fields that hold a conversation, or several.
CONVERSATIONS: Final = ("messages", "input")

_REFUSED: Final = (msgspec.MsgspecError, ValueError, RecursionError)
_TRUE_WORDS: Final = frozenset({"true", "1", "yes", "on", "t", "y"})

#: A list whose first element is a number: token ids, which are one prompt.
_IDS = re.compile(rb"\s*\[\s*[-0-9tf]")
#: A list whose first element is an object: the turns of one conversation.
_TURNS = re.compile(rb"\s*\[\s*\{")
#: A list whose first element is a list: conversations of a batch, or several lists of token ids.
_LISTS = re.compile(rb"\s*\[\s*\[")

_LIST = msgspec.json.Decoder(list[Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])


def read_fields(body: bytes | Raw) -> Fields:
    """The fields of a JSON object; none of any other body, which vLLM refuses."""
    try:
        return _OBJECT.decode(body)
    except _REFUSED:
        value = _parsed(bytes(body))
    return {name: Raw(json.dumps(member).encode()) for name, member in value.items()} if isinstance(value, dict) else {}


def written(fields: Fields) -> bytes:
    """The JSON of an object with these fields."""
    return b"{%b}" % b",".join(json.dumps(name).encode() + b":" + bytes(value) for name, value in fields.items())


def value_of(raw: Raw | None) -> Any:
    """The value as vLLM parses it; None without a value."""
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except _REFUSED:
        return _parsed(bytes(raw))


def whole_number(value: object) -> int | None:
    """The number that vLLM would read, rounded up, also from a text; None for anything else."""
    if isinstance(value, Raw):
        value = value_of(value)
    if isinstance(value, str):
        value = _number_in(value)
    if isinstance(value, float):
        return math.ceil(value) if math.isfinite(value) else None
    return value if isinstance(value, int) else None


def is_true(value: object) -> bool:
    """Whether vLLM would read true."""
    if isinstance(value, Raw):
        value = value_of(value)
    return value.strip().lower() in _TRUE_WORDS if isinstance(value, str) and len(value) < 10 else value == 1


def count(raw: Raw) -> int:
    """The elements of a list, or the members of an object; 1 for another value, 0 for none and for null."""
    kind = bytes(memoryview(raw)[:1])
    try:
        if kind == b"[":
            return len(_LIST.decode(raw))
        if kind == b"{":
            return len(_OBJECT.decode(raw))
    except _REFUSED:
        return len(_parsed(bytes(raw)) or ())
    return 0 if kind in (b"", b"n") else 1


def count_prompts(raw: Raw) -> int:
    """The number of texts, lists of token ids or tensors in a field; a list of token ids alone is one prompt."""
    if _IDS.match(raw):
        return 1
    return 0 if len(raw) <= len('""') else count(raw)


def count_conversations(raw: Raw) -> int:
    """The number of prompts in a field that holds conversations: the turns of a conversation are one prompt."""
    return 1 if is_conversation(raw) else count_prompts(raw)


def is_conversation(raw: Raw) -> bool:
    """Whether the value is a list of turns."""
    return _TURNS.match(raw) is not None


def is_list_of_lists(raw: Raw) -> bool:
    """Whether the first element of a list is a list: the conversations of a batch, or several lists of token ids."""
    return _LISTS.match(raw) is not None


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _number_in(text: str) -> int | float | None:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None
