"""Batching strategies: when the gathered requests are dispatched.

``static``      exactly ``seats`` sequences, or none; the next batch starts when the longest of this one has ended
``dynamic``     full, or when the window that opened with the first arrival ends; the same barrier
``continuous``  a request is dispatched as soon as a seat is free, and the engine refills its running batch at every
                step (iteration-level scheduling: Yu et al., Orca, OSDI 2022)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from headway_policies.batching.window import Gathered, Window
from headway_policies.import_path import named_policy


class Batching(BaseModel):
    """``[batching]`` of a preset: the strategy, the seats it may fill and the window in which a batch may gather.

    ``window_ms`` and the keys after it only matter to ``static`` and ``dynamic``: under ``continuous`` a request never
    waits for a batch. ``window`` is ``fixed``, ``adaptive``, or the import path ``package.module:Class`` of a custom
    one, created with the length of ``window_ms`` in seconds. ``urgent_window_ms`` is how long the most urgent class may
    wait for a batch. ``bins`` forms batches of similar predicted length. ``flush_after_s`` dispatches a static batch
    that does not fill. ``max_total_tokens`` bounds prompt + possible output over all that runs, under every strategy.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    strategy: Literal["static", "dynamic", "continuous"] = "continuous"
    seats: int = Field(ge=1, le=65_536)
    window_ms: float = Field(ge=0, le=60_000)
    window: Annotated[str, named_policy("fixed", "adaptive")] = "fixed"
    urgent_window_ms: float = Field(default=0, ge=0, le=60_000)
    max_total_tokens: int | None = Field(default=None, ge=1)
    preferred_batch_sizes: tuple[int, ...] = Field(default=(), strict=False)  # TOML has lists only
    bins: int = Field(default=1, ge=1, le=64)
    flush_after_s: float | None = Field(default=None, gt=0, le=86_400)


class Strategy(Protocol):
    """Decides when the requests gathered in a lane are dispatched together."""

    @property
    def barrier(self) -> bool:
        """Whether the next batch waits until the whole last one has ended."""
        ...

    def leaving(self, gathered: Gathered, now_s: float) -> int:
        """The seats to dispatch now; 0: keep waiting."""
        ...

    def due_s(self, gathered: Gathered, now_s: float) -> float | None:
        """The latest time to ask again without an arrival; None: never."""
        ...


@dataclass(frozen=True, slots=True)
class Continuous:
    """A request is dispatched as soon as a seat is free."""

    barrier: bool = False

    def leaving(self, gathered: Gathered, now_s: float) -> int:
        """All gathered seats."""
        return gathered.seats

    def due_s(self, gathered: Gathered, now_s: float) -> float | None:
        """None: only a free seat matters."""
        return None


@dataclass(frozen=True, slots=True)
class Static:
    """A full batch or none; with ``flush_after_s`` also a batch that has not filled after so long."""

    flush_after_s: float | None = None
    barrier: bool = True

    def leaving(self, gathered: Gathered, now_s: float) -> int:
        """All seats, once they can be filled."""
        due_s = self.due_s(gathered, now_s)
        overdue = due_s is not None and now_s >= due_s
        return gathered.max_seats if gathered.full or overdue else 0

    def due_s(self, gathered: Gathered, now_s: float) -> float | None:
        """The time when the first arrival has waited ``flush_after_s``."""
        return None if self.flush_after_s is None else gathered.opened_s + self.flush_after_s


@dataclass(frozen=True, slots=True)
class Dynamic:
    """Full, of a preferred size, or when the window that opened with the first arrival ends, whichever comes first.

    The window shrinks with the limit: both follow the latency. The most urgent class has its own window (0: no wait);
    the rest of such a batch is filled with the next requests. ``preferred`` has Triton's meaning of
    preferred_batch_size.
    """

    window: Window
    urgent_window_s: float = 0.0
    preferred: tuple[int, ...] = ()
    barrier: bool = True

    def leaving(self, gathered: Gathered, now_s: float) -> int:
        """All seats once the batch is full or its window has ended; else a preferred size."""
        if gathered.full or now_s >= self.due_s(gathered, now_s):
            return gathered.max_seats
        return max((size for size in self.preferred if size <= gathered.seats), default=0)

    def due_s(self, gathered: Gathered, now_s: float) -> float:
        """The end of the window, or of the urgent window if that is earlier."""
        due_s = gathered.opened_s + gathered.share * self.window.length_s(gathered, now_s)
        if gathered.urgent_s is None:
            return due_s
        return min(due_s, gathered.urgent_s + self.urgent_window_s)


def make_strategy(batching: Batching, window: Window) -> Strategy:
    """The strategy a preset names."""
    match batching.strategy:
        case "static":
            return Static(batching.flush_after_s)
        case "dynamic":
            return Dynamic(window, batching.urgent_window_ms / 1000, batching.preferred_batch_sizes)
        case "continuous":
            return Continuous()
