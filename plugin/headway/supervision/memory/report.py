"""The report of memory maintenance: the cap on seats, cleared caches, recycled engines, garbage-collector pauses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.supervision.memory.gc_pauses import GcPauses
from headway_policies.memory import Cache

#: The causes of a recycle: an operator's command, the preset's schedule, the growth of the engine's memory.
TRIGGERS = ("command", "schedule", "growth")


@dataclass(slots=True)
class MemoryReport:
    """The share of the limit that may be used, that in use of the host's memory, the counts of caches cleared and
    engines recycled, and the pauses.

    ``recycle_form`` says how the new engine of the last recycle was started, beside the old one or after its end, and
    why; empty before the first. ``engine_bytes`` is the engine's memory by component, as far as it is known.
    """

    cap_ratio: float = 1.0
    host_usage_ratio: float = 0.0
    cleared: Counter[Cache] = field(default_factory=Counter)
    recycled: Counter[str] = field(default_factory=Counter)
    recycle_form: str = ""
    engine_bytes: Mapping[str, int] = field(default_factory=dict)
    pauses: GcPauses = field(default_factory=GcPauses)
