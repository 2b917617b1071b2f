"""How did the warm-up go, as operators see it?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class WarmupReport:
    """The state: pending, running, done, skipped or failed; of each stage that ran, the seconds of every round.

    ``reason`` says in one line what failed, and stays while it is tried again. ``refused`` are the stages that the
    engine would not run. ``settled`` says whether the last two batches took equally long.
    """

    state: str = "pending"
    reason: str = ""
    batch_size: int | None = None
    attempt: int = 0
    stages: dict[str, list[float]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    settled: bool = False

    @property
    def single_s(self) -> float | None:
        """How long one request alone took."""
        return self.last_s().get("single")

    @property
    def batch_s(self) -> float | None:
        """How long the last full batch took."""
        return self.last_s().get("batch")

    def last_s(self) -> dict[str, float]:
        """How long each stage took in its last round."""
        return {stage: rounds_s[-1] for stage, rounds_s in self.stages.items()}

    def show(self) -> dict[str, Any]:
        """The whole, for the status."""
        return {
            "state": self.state,
            "reason": self.reason,
            "attempt": self.attempt,
            "single_s": _rounded(self.single_s),
            "batch_s": _rounded(self.batch_s),
            "batch_size": self.batch_size,
            "stages": {stage: [_rounded(took_s) for took_s in rounds_s] for stage, rounds_s in self.stages.items()},
            "refused": list(self.refused),
            "settled": self.settled,
        }


def _rounded(took_s: float | None) -> float | None:
    return None if took_s is None else round(took_s, 4)
