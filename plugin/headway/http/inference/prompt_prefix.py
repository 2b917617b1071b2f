"""The prefix of the prompt in a JSON body, which is not parsed for it.

What is hashed are the bytes of the body from the key of the prompt on, so two requests have in common what their
clients wrote alike: the same messages with another spacing, or another order of their keys, are two prompts. A system
prompt beside the messages comes first, wherever it stands, as in the chat template. Requests for another model (an
adapter, too) or with another ``cache_salt`` share nothing in vLLM's cache, and have nothing in common here.
"""

from __future__ import annotations

import re

from headway.admission import MAX_TEXT_BYTES, text_prefix
from headway.openai.routes import ROUTES, Route

_KEYS = {key: re.compile(rb'"%b"\s*:' % key.encode()) for route in ROUTES for key in route.prefix}
_APART = {key: re.compile(rb'"%b"\s*:\s*"([^"]{0,200})"' % key) for key in (b"model", b"cache_salt")}


def prompt_prefix(route: Route, body: bytes) -> tuple[int, ...]:
    """The hashes of the beginnings of a prompt; none on a route, or of a body, that has no prompt of text or ids."""
    begins = [begin for key in route.prefix if (begin := _find(_KEYS[key], key.encode(), body)) is not None]
    if not begins:
        return ()
    return text_prefix(_in_order(body, begins), b"\0".join(_value(key, body) for key in _APART))


def _in_order(body: bytes, begins: list[int]) -> bytes:
    """The body from the first key on; what stands before that from the next key on, and so forth."""
    text, end = b"", len(body)
    for begin in begins:
        if begin < end:
            text += body[begin : min(end, begin + MAX_TEXT_BYTES - len(text))]
            end = begin
    return text


def _find(pattern: re.Pattern[bytes], key: bytes, body: bytes) -> int | None:
    """Where a pattern begins, which contains a key; plain bytes are found faster."""
    at = body.find(b'"' + key)
    found = None if at < 0 else pattern.search(body, at)
    return None if found is None else found.start()


def _value(key: bytes, body: bytes) -> bytes:
    at = body.find(b'"' + key)
    found = None if at < 0 else _APART[key].search(body, at)
    return b"" if found is None else found[1]
