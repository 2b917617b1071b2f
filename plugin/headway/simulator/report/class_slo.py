"""The objectives that a preset states for a class of requests, beside those by which all runs are compared.

Presets with different objectives cannot be compared by them: the longer ones are easier to keep. So goodput and the
ceiling are by one ``Slo`` for all, and this judgement stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from headway.simulator.run.visit import Visit
from headway_policies import Preset


@dataclass(frozen=True, slots=True)
class ClassSlo:
    """What one class is promised, in seconds; None where it is not stated, and so cannot be missed."""

    ttft_s: float | None
    inter_token_s: float | None

    def kept(self, visit: Visit) -> bool:
        """Whether a request was served to its end within what is stated."""
        return visit.within(_or_never(self.ttft_s), _or_never(self.inter_token_s))


def stated_by(preset: Preset | None) -> Mapping[str, ClassSlo]:
    """The objectives of each class that states any; empty for the engine alone."""
    stated = {
        name: ClassSlo(terms.ttft_slo_s, None if terms.inter_token_slo_ms is None else terms.inter_token_slo_ms / 1000)
        for name, terms in ({} if preset is None else preset.classes).items()
    }
    return {name: one for name, one in stated.items() if one != ClassSlo(None, None)}


def _or_never(slo_s: float | None) -> float:
    return inf if slo_s is None else slo_s
