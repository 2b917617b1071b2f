"""The caps of one request, beyond the bounds of the server itself."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class RequestCaps:
    """The largest value of each parameter of a request; None: no cap.

    ``sequences`` bounds ``n`` and ``best_of``, ``prompts`` the texts of one body, ``output_tokens`` what ``max_tokens``
    and its other names may say, ``logprobs`` the alternatives at each position. ``stops`` and ``logit_bias`` bound the
    elements of one such list, ``tools`` the tools, and ``grammar_bytes`` one schema, regular expression or grammar.
    """

    output_tokens: int | None = None
    sequences: int | None = None
    prompts: int | None = None
    logprobs: int | None = None
    stops: int | None = None
    logit_bias: int | None = None
    grammar_bytes: int | None = None
    tools: int | None = None

    def lowered_by(self, other: RequestCaps) -> RequestCaps:
        """The lower cap of the two for each parameter."""
        pairs = ((field.name, getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return RequestCaps(**{name: _lower(first, second) for name, first, second in pairs})


def _lower(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)
