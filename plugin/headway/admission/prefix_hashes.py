"""Keyed hashes of the beginnings of a prompt, by which an order ``inside = "prefix"`` compares prompts.

The beginnings are those of ``PREFIX_TOKENS``; of a text, four bytes count as a token. Each hash covers its whole
beginning: BLAKE2 (RFC 7693) with a random key of this process, so that a hash says nothing of the text, and collisions
cannot be made on purpose. Text beyond the longest beginning is not read: 110 KB of a text at most, at about 1 GB a
second.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from headway.openai.fields import Fields
from headway.openai.routes import Route
from headway_policies.request import PREFIX_TOKENS

#: A token of a text, in bytes.
BYTES_PER_TOKEN: Final = 4
#: The most bytes of a text that are hashed.
MAX_TEXT_BYTES: Final = BYTES_PER_TOKEN * PREFIX_TOKENS[-1]

_APART: Final = ("model", "cache_salt")
_HASH_BYTES = 8
_KEY: Final = secrets.token_bytes(32)


def text_prefix(text: bytes | bytearray | memoryview, apart: bytes = b"") -> tuple[int, ...]:
    """The hashes of a text. Texts with another ``apart`` have nothing in common."""
    return _hashes(memoryview(text), BYTES_PER_TOKEN, b"text" + apart)


def fields_prefix(route: Route, fields: Fields) -> tuple[int, ...]:
    """The hashes of the prompt in a JSON body, as its client wrote it; none where it has no text and no ids.

    A system prompt beside the messages comes first, as in the chat template. Requests for another model (an adapter,
    too) or with another ``cache_salt`` share nothing in vLLM's cache, and have nothing in common here.
    """
    text = b"".join(memoryview(fields[name])[:MAX_TEXT_BYTES] for name in route.prefix if name in fields)
    return text_prefix(text, b"\0".join(bytes(fields.get(name, b"")) for name in _APART))


def token_prefix(tokens: Sequence[int]) -> tuple[int, ...]:
    """The hashes of a prompt of token ids; none where they are not such ids, which the engine will refuse."""
    try:
        ids = array("q", tokens[: PREFIX_TOKENS[-1]])
    except (TypeError, OverflowError):
        return ()
    return _hashes(memoryview(ids).cast("B"), ids.itemsize, b"ids")


def prompt_prefix(prompt: Any) -> tuple[int, ...]:
    """The hashes of a prompt as an engine takes it: token ids, alone or under ``prompt_token_ids``, else a text."""
    fields = prompt if isinstance(prompt, Mapping) else {}
    ids = fields.get("prompt_token_ids", getattr(prompt, "prompt_token_ids", None))
    content = fields.get("prompt", prompt) if ids is None else ids
    if isinstance(content, str):
        return text_prefix(content[:MAX_TEXT_BYTES].encode(errors="replace"))
    return token_prefix(content) if isinstance(content, list | tuple) else ()


def _hashes(content: memoryview, unit_bytes: int, apart: bytes) -> tuple[int, ...]:
    digest = blake2b(apart, key=_KEY, digest_size=_HASH_BYTES)
    found, at = [], 0
    for tokens in PREFIX_TOKENS:
        end = tokens * unit_bytes
        if end > len(content):
            break
        digest.update(content[at:end])
        found.append(int.from_bytes(digest.digest()))
        at = end
    return tuple(found)
