"""The restart of a dead engine: whether it is replaced, after which pause, and with how many seats.

    death                       what follows
    the first                   a new engine at once, with the same limit
    another, not yet healthy    a new engine after a pause that doubles each time
    more than ``max_restarts``  no new engine: all requests are answered, and the process ends with an error
    out of memory               a new engine with half the seats; requests that had sent no output are retried once
    out of memory again         no admission until a new engine, with half of that again, has answered a probe

After ``healthy_after_s`` seconds without a death, the counts are reset and the limit is whole again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

_MAX_PAUSE_S = 60.0
_OUT_OF_MEMORY_RATIO = 0.5


class Recovery(BaseModel):
    """``[recovery]`` of a preset."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    max_restarts: int = Field(default=3, ge=0, le=1000)
    backoff_s: float = Field(default=1.0, ge=0.0, le=_MAX_PAUSE_S)
    healthy_after_s: float = Field(default=120.0, gt=0.0, le=86_400.0)
    probation_s: float = Field(default=10.0, gt=0.0, le=3600.0)
    hang_after_s: float = Field(default=10.0, ge=1.0, le=3600.0)
    slow_step_after_s: float = Field(default=120.0, ge=1.0, le=86_400.0)
    restart_hung: bool = False


class Cause(StrEnum):
    """The cause of an engine's absence."""

    CRASH = "crash"
    OUT_OF_MEMORY = "out_of_memory"
    HANG = "hang"
    RECYCLE = "recycle"


@dataclass(frozen=True, slots=True)
class Restart:
    """Start a new engine after a pause, with this share of the seats. ``admitting``: admit requests while it starts."""

    after_s: float
    seats_ratio: float
    admitting: bool


class RestartPolicy:
    """Counts the engine's deaths and decides on restarts."""

    def __init__(self) -> None:
        self.deaths = 0
        self.deaths_in_a_row = 0
        self.out_of_memory = 0
        self._back_s: float | None = None

    @property
    def seats_ratio(self) -> float:
        """The share of the limit that may be used, until the engine has been healthy for long enough."""
        return _OUT_OF_MEMORY_RATIO**self.out_of_memory

    def died(self, cause: Cause, now_s: float, config: Recovery) -> Restart | None:
        """The engine died, or a new one did not start. None: no further restart."""
        self.update(now_s, config)
        self._back_s = None
        if cause is Cause.RECYCLE:
            return Restart(0.0, self.seats_ratio, admitting=True)
        self.deaths += 1
        self.deaths_in_a_row += 1
        if self.deaths_in_a_row > config.max_restarts:
            return None
        self.out_of_memory += cause is Cause.OUT_OF_MEMORY
        return Restart(self._pause_s(config), self.seats_ratio, admitting=self.out_of_memory < 2)

    def back(self, now_s: float) -> None:
        """An engine serves requests again."""
        self._back_s = now_s

    def update(self, now_s: float, config: Recovery) -> bool:
        """Reset the counts once the engine has been healthy for long enough. Returns whether they were reset now."""
        if not self.deaths_in_a_row or self._back_s is None or now_s < self._back_s + config.healthy_after_s:
            return False
        self.deaths_in_a_row = self.out_of_memory = 0
        return True

    def _pause_s(self, config: Recovery) -> float:
        before = self.deaths_in_a_row - 1
        return min(_MAX_PAUSE_S, config.backoff_s * 2.0 ** min(before - 1, 16)) if before else 0.0
