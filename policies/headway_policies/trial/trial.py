"""A trial of a preset: the preset stays when somebody confirms it, and goes when a condition holds or time is over.

With ``revert_after_s`` nobody's word is needed to go back: without a confirmation until then the earlier settings
return, as with a router's "reload in 5" or the confirmed commit of NETCONF (RFC 6241, section 8.4). With conditions
alone a trial is a watch: the preset stays if none of them has held for ``WATCH_S``.

A condition is judged by what was served since the change, and while requests are dispatched at all: an engine that is
being restarted, or a server that drains, says nothing of a preset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headway_policies.trial.condition import Condition
from headway_policies.trial.figures import Served

#: How long conditions are watched where no time is set to go back.
WATCH_S = 600.0


@dataclass(frozen=True, slots=True)
class TrialTerms:
    """The conditions that revert a trial; at least one of the two is given."""

    revert_after_s: float | None = None
    revert_if: Sequence[Condition] = ()

    def __bool__(self) -> bool:
        return self.revert_after_s is not None or bool(self.revert_if)

    @property
    def lasts_s(self) -> float:
        """The longest time of the trial."""
        return WATCH_S if self.revert_after_s is None else self.revert_after_s


NO_TRIAL = TrialTerms()


class TrialEnd(StrEnum):
    """The end of a trial; ``overtaken``: somebody changed the preset or its limit meanwhile."""

    KEPT = "kept"
    REVERTED = "reverted"
    OVERTAKEN = "overtaken"


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The end of a trial, and the reason in words."""

    end: TrialEnd
    why: str


class Trial:
    """A trial that began at ``began_s``. Look at it about once a second."""

    def __init__(self, terms: TrialTerms, began_s: float) -> None:
        self.terms = terms
        self.began_s = began_s
        self.ends_s = began_s + terms.lasts_s
        self._since_s: list[float | None] = [None] * len(terms.revert_if)

    def held_s(self, now_s: float) -> list[float]:
        """The seconds for which each condition has been true, 0 where it is not."""
        return [0.0 if since_s is None else now_s - since_s for since_s in self._since_s]

    def look(self, served: Mapping[str, Served] | None, now_s: float) -> TrialResult | None:
        """Judge what is served; None: nothing can be judged now. The end of the trial, or None while it goes on."""
        for place, condition in enumerate(self.terms.revert_if):
            reading = None if served is None else condition.reading(served)
            if reading is None or not condition.beyond(reading):
                self._since_s[place] = None
                continue
            since_s = self._since_s[place]
            since_s = self._since_s[place] = now_s if since_s is None else since_s
            if now_s - since_s >= condition.for_s:
                return TrialResult(TrialEnd.REVERTED, f"{condition.name} is {condition.words(reading)}: {condition}")
        if now_s < self.ends_s:
            return None
        lasted = f"{self.terms.lasts_s:g} s"
        if self.terms.revert_after_s is not None:
            return TrialResult(TrialEnd.REVERTED, f"not confirmed within {lasted}")
        return TrialResult(TrialEnd.KEPT, f"no condition has held within {lasted}")
