"""The events of a stream that stand for a token, counted in its bytes as they come.

An event counts where its line begins with ``data:``. The last ones of a stream come together with its last token and
count as nothing; of OpenAI's responses and Anthropic's messages only the deltas count, for their first events are sent
before the engine has begun.
"""

from __future__ import annotations

from typing import Final

from headway.openai.routes import Api, ends_stream, route_at

_DATA, _NEXT_DATA, _NEXT_EVENT = b"data:", b"\ndata:", b"\nevent:"
_DELTA: Final = b"delta"


class TokenEvents:
    """The count for one response to a request with this target; ``streams``: whether it is a stream of events."""

    def __init__(self, target: str, *, streams: bool) -> None:
        self._streams = streams
        self._deltas = route_at(target.partition("?")[0]).api is not Api.OPENAI

    def count(self, part: bytes) -> int:
        """The tokens that begin in the next bytes. Costs O(bytes)."""
        if not self._streams or (self._deltas and _DELTA not in part) or ends_stream(part):
            return 0
        return events_in(part)


def is_comment(part: bytes) -> bool:
    """Whether these first bytes of a stream are comments alone, which begin with a colon and are no event."""
    return part.startswith(b":") and _NEXT_DATA not in part and _NEXT_EVENT not in part


def events_in(part: bytes) -> int:
    """The events that begin in the next bytes of a stream. Costs O(bytes)."""
    return part.count(_NEXT_DATA) + part.startswith(_DATA)
