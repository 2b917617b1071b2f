"""A goal of the benchmarks: its target, the figure that was reached, and the margin between them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure of one goal.

    ``name`` and ``figure`` identify it and are the same in every run; ``note`` may hold numbers of this run. ``most``
    says that the target is an upper bound.
    """

    name: str
    figure: str
    target: float
    reached: float
    most: bool = False
    unit: str = ""
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the figure is on the right side of its target."""
        return self.reached <= self.target if self.most else self.reached >= self.target

    @property
    def margin(self) -> str:
        """The distance from the target, in percent; positive is better."""
        if not self.target:
            return ""
        better = (self.target - self.reached) if self.most else (self.reached - self.target)
        return f"{100 * better / self.target:+.0f} %"
