"""The engine died: start another one, when, and how carefully?

    died                     what follows
    the first time           another engine at once, the same limit
    again, not yet healthy   another one after a pause that doubles
    more than ``restarts``   no other one: everybody is answered, and the process ends with an error
    out of memory            another one with half the seats; what had sent nothing is tried once more
    out of memory again      nobody is admitted until another one, with half of that, has answered a probe

A stretch of ``healthy_after_s`` seconds without a death clears the record, and the limit is whole again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

_MOST_PAUSE_S = 60.0
_OUT_OF_MEMORY_RATIO = 0.5


class Recovery(BaseModel):
    """The preset's ``[recovery]``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    max_restarts: int = Field(default=3, ge=0, le=1000)
    backoff_s: float = Field(default=1.0, ge=0.0, le=_MOST_PAUSE_S)
    healthy_after_s: float = Field(default=120.0, gt=0.0, le=86_400.0)
    probation_s: float = Field(default=10.0, gt=0.0, le=3600.0)
    hang_after_s: float = Field(default=10.0, ge=1.0, le=3600.0)
    slow_step_after_s: float = Field(default=120.0, ge=1.0, le=86_400.0)
    restart_hung: bool = False


class Cause(StrEnum):
    """Why the engine is no longer there."""

    CRASH = "crash"
    OUT_OF_MEMORY = "out_of_memory"
    HANG = "hang"
    RECYCLE = "recycle"


@dataclass(frozen=True, slots=True)
class Restart:
    """Start another engine after a pause, with this share of the seats; ``admitting`` already while it starts."""

    after_s: float
    seats_ratio: float
    admitting: bool


class RestartPolicy:
    """The record of deaths, and what follows from it."""

    def __init__(self) -> None:
        self.deaths = 0
        self.deaths_in_a_row = 0
        self.out_of_memory = 0
        self._back_s: float | None = None

    @property
    def seats_ratio(self) -> float:
        """The share of the limit that is open, until the engine has been healthy for long enough."""
        return _OUT_OF_MEMORY_RATIO**self.out_of_memory

    def died(self, cause: Cause, now_s: float, config: Recovery) -> Restart | None:
        """The engine is gone, or another one did not start. None: give up."""
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
        """An engine serves again."""
        self._back_s = now_s

    def update(self, now_s: float, config: Recovery) -> bool:
        """Clear the record once the engine has been healthy for long enough. Whether it was cleared now."""
        if not self.deaths_in_a_row or self._back_s is None or now_s < self._back_s + config.healthy_after_s:
            return False
        self.deaths_in_a_row = self.out_of_memory = 0
        return True

    def _pause_s(self, config: Recovery) -> float:
        before = self.deaths_in_a_row - 1
        return min(_MOST_PAUSE_S, config.backoff_s * 2.0 ** min(before - 1, 16)) if before else 0.0
