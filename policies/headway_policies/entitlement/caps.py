"""What one request may ask for at most, beyond what the server itself allows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestCaps:
    """The largest value of each parameter of a request; None: no cap.

    ``sequences`` bounds ``n`` and ``best_of``, ``prompts`` the texts of one body, ``output_tokens`` what ``max_tokens``
    and its other names may say.
    """

    output_tokens: int | None = None
    sequences: int | None = None
    prompts: int | None = None
