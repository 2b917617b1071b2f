"""A trial of a preset: the preset stays once an operator confirms it, and is reverted when a condition holds.

With ``revert_after_s`` a trial that is not confirmed in time is reverted too, like a router's "reload in 5" or the
confirmed commit of NETCONF (RFC 6241, section 8.4). With conditions alone the preset stays if none of them has held
within ``WATCH_S``.

A condition is judged by the requests since the change, and only while requests are dispatched: the figures of a server
whose engine restarts, or that drains, do not depend on the preset.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headway_policies.trial.condition import Condition, ConditionError
from headway_policies.trial.figures import Served

#: The length of a trial without ``revert_after_s``.
WATCH_S = 600.0


@dataclass(frozen=True, slots=True)
class TrialTerms:
    """When a trial is reverted: after a time without a confirmation, or when a condition holds. With neither, there is
    no trial.
    """

    revert_after_s: float | None = None
    revert_if: Sequence[Condition] = ()

    def __bool__(self) -> bool:
        return self.revert_after_s is not None or bool(self.revert_if)

    @property
    def lasts_s(self) -> float:
        """The longest time of the trial."""
        return WATCH_S if self.revert_after_s is None else self.revert_after_s


NO_TRIAL = TrialTerms()


def read_condition(text: str, class_names: Collection[str] | None, revert_after_s: float | None) -> Condition:
    """Read a condition of a trial. Raises ConditionError, also where the trial would end before the condition could
    hold, and keep the preset: with ``revert_after_s`` it takes it back.
    """
    found = Condition.parse(text, class_names)
    if revert_after_s is None and found.for_s >= WATCH_S:
        raise ConditionError(
            f"'{found}' cannot be met: a trial without a time to go back ends after {WATCH_S:g} s, and keeps the "
            "preset; set that time, or a shorter time after 'for'"
        )
    return found


class TrialEnd(StrEnum):
    """The end of a trial; ``overtaken``: the preset or its limit was changed before."""

    KEPT = "kept"
    REVERTED = "reverted"
    OVERTAKEN = "overtaken"


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The end of a trial, and the reason in words."""

    end: TrialEnd
    why: str


class Trial:
    """A trial that began at ``began_s``. Its owner calls ``look`` about once a second."""

    def __init__(self, terms: TrialTerms, began_s: float) -> None:
        self.terms = terms
        self.began_s = began_s
        self.ends_s = began_s + terms.lasts_s
        self._since_s: list[float | None] = [None] * len(terms.revert_if)

    def held_s(self, now_s: float) -> list[float]:
        """The seconds for which each condition has been true, 0 where it is not."""
        return [0.0 if since_s is None else now_s - since_s for since_s in self._since_s]

    def look(self, served: Mapping[str, Served] | None, now_s: float) -> TrialResult | None:
        """Judge the figures; ``served`` is None while they cannot be judged. Returns the end of the trial, or None
        while it continues.
        """
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
        return TrialResult(TrialEnd.KEPT, f"no condition was met within {lasted}")
