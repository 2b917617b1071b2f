"""The usage of a request, read beside its response as that passes through.

A body states it in its ``usage``; a stream only if its client asked for that, but llama.cpp's ends with its
``timings``. A stream without it is counted by events.
"""

from __future__ import annotations

import re
from typing import Final

from headway.router.forwarding.token_events import events_in
from headway_policies import Usage

_TAIL_BYTES: Final = 16 * 1024
_PROMPT: Final = re.compile(rb'"(?:prompt_tokens|input_tokens)"\s*:\s*(\d{1,9})\b')
_OUTPUT: Final = re.compile(rb'"(?:completion_tokens|output_tokens|predicted_n)"\s*:\s*(\d{1,9})\b')
#: The first event of a stream names the role, the last two its end.
_OTHER_EVENTS: Final = 2


class UsageReader:
    """The reader of one response. ``prompt_tokens`` is the estimate for a stream that does not state its number."""

    def __init__(self, prompt_tokens: int) -> None:
        self._prompt_tokens = prompt_tokens
        self._head, self._tail = b"", bytearray()
        self._events = 0

    def add(self, part: bytes) -> None:
        """Read the next bytes. Costs O(bytes)."""
        self._events += events_in(part)
        if len(self._head) < _TAIL_BYTES:
            self._head += part[: _TAIL_BYTES - len(self._head)]
        self._tail += part
        if len(self._tail) > 2 * _TAIL_BYTES:
            del self._tail[:-_TAIL_BYTES]

    def usage(self) -> Usage | None:
        """The usage of the whole response; None where it is unknown."""
        output = _last(_OUTPUT, self._tail)
        if output is not None:
            prompt = _last(_PROMPT, self._tail) or _last(_PROMPT, self._head)
            return Usage(prompt or self._prompt_tokens, output)  # TGI says 0 where it does not know
        prompt = _last(_PROMPT, self._tail)
        if prompt is not None:  # an embedding has no output
            return Usage(prompt, 0)
        if not self._events:
            return None
        return Usage(self._prompt_tokens, max(0, self._events - _OTHER_EVENTS))


def _last(pattern: re.Pattern[bytes], text: bytes | bytearray) -> int | None:
    found = pattern.findall(text)
    return int(found[-1]) if found else None
