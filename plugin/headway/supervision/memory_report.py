"""What has been done about memory, as operators see it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.engine import Ended
from headway.supervision.gc_pauses import GcPauses
from headway_policies.memory import Cache

#: Who may ask for another engine: an operator, the preset's clock, the engine's size.
TRIGGERS = ("command", "schedule", "growth")


@dataclass(slots=True)
class MemoryReport:
    """The share of the limit that may be used, what was cleared and replaced, and the collector's pauses.

    ``largest_job_tokens`` is the largest sequence that has ended since somebody last took that figure.
    """

    cap_ratio: float = 1.0
    cleared: Counter[Cache] = field(default_factory=Counter)
    recycled: Counter[str] = field(default_factory=Counter)
    pauses: GcPauses = field(default_factory=GcPauses)
    largest_job_tokens: int = 0

    def ended(self, sequences: Sequence[Ended]) -> None:
        """Sequences ended in the engine."""
        for one in sequences:
            self.largest_job_tokens = max(self.largest_job_tokens, one.prompt_tokens + one.output_tokens)

    def take_largest_job(self) -> int:
        """The largest since the last call, in tokens."""
        tokens, self.largest_job_tokens = self.largest_job_tokens, 0
        return tokens

    def show(self) -> dict[str, Any]:
        """The whole, for the status."""
        return {
            "cap_ratio": self.cap_ratio,
            "cleared": {cache.value: self.cleared[cache] for cache in Cache},
            "recycled": {trigger: self.recycled[trigger] for trigger in TRIGGERS},
            "longest_gc_pause_s": round(max(one.longest_s for one in self.pauses.generations), 6),
        }
