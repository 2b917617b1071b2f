"""The account of one request: its use of the engine, until the last of its calls has left the engine.

A permit ends when its client has its answer, or has left; the engine may count tokens of it for a moment longer. So an
account is closed when both are over: the permit has its outcome, and no call is left that the engine could report on.
"""

from __future__ import annotations

from collections.abc import Callable

from headway.engine import Ended
from headway_policies import Outcome, Usage


class Account:
    """The account of one permit. ``key`` is the name of a key, ``model`` that of the server's model, ``adapter`` that
    of an adapter or "".

    ``calls`` counts those whose sequences are not all reported yet; ``outcome`` is None while the permit is not over.
    ``on_closed`` is called once its record has been made.
    """

    __slots__ = (
        "_seats",
        "_since_s",
        "adapter",
        "cached_tokens",
        "calls",
        "key",
        "model",
        "on_closed",
        "outcome",
        "output_tokens",
        "prompt_tokens",
        "queue_s",
        "seat_s",
    )

    def __init__(self, key: str, model: str, adapter: str, now_s: float) -> None:
        self.key, self.model, self.adapter = key, model, adapter
        self.outcome: Outcome | None = None
        self.on_closed: Callable[[], None] | None = None
        self.calls = self.prompt_tokens = self.cached_tokens = self.output_tokens = 0
        self.queue_s = self.seat_s = 0.0
        self._seats: int | None = None  # None: it waits for a seat
        self._since_s = now_s

    @property
    def closed(self) -> bool:
        """Whether nothing can be added any more."""
        return self.outcome is not None and self.calls == 0

    def has(self, seats: int | None, now_s: float) -> None:
        """The request has this many seats from now on; None: it waits for them."""
        passed_s = now_s - self._since_s
        if self._seats is None:
            self.queue_s += passed_s
        else:
            self.seat_s += self._seats * passed_s
        self._seats, self._since_s = seats, now_s

    def add(self, ended: Ended) -> None:
        """Add a sequence, as the engine reports it."""
        self.prompt_tokens += ended.prompt_tokens
        self.cached_tokens += ended.cached_tokens
        self.output_tokens += ended.output_tokens

    def add_usage(self, usage: Usage) -> None:
        """Add a call of which the engine reports nothing, by its last output."""
        self.prompt_tokens += usage.prompt_tokens
        self.output_tokens += usage.output_tokens
