"""What a goal is, and how it is told: target, reached, margin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MARKS = ("<!-- bench-policies -->", "<!-- /bench-policies -->")


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure of one goal. ``most`` when the target is an upper bound; ``why`` explains a miss that is known."""

    name: str
    what: str
    target: float
    reached: float
    most: bool = False
    unit: str = ""
    note: str = ""
    why: str = ""

    @property
    def met(self) -> bool:
        """Whether the figure is on the right side of its target."""
        return self.reached <= self.target if self.most else self.reached >= self.target

    @property
    def margin(self) -> str:
        """How far it is from the target, in percent; positive is better."""
        if not self.target:
            return ""
        better = (self.target - self.reached) if self.most else (self.reached - self.target)
        return f"{100 * better / self.target:+.0f} %"

    def row(self) -> list[str]:
        """The cells of its line in the table."""
        sign, unit = "≤" if self.most else "≥", f" {self.unit}" if self.unit else ""
        why = f": {self.why}" if self.why else ""
        verdict = self.margin if self.met else f"**missed** ({self.margin}){why}"
        note = f" ({self.note})" if self.note else ""
        return [self.name, self.what + note, f"{sign} {self.target:g}{unit}", f"{self.reached:.4g}{unit}", verdict]


def as_markdown(goals: Iterable[Goal]) -> str:
    """The table for the README."""
    head = ["goal", "figure", "target", "reached", "margin"]
    rows = [head, ["---"] * len(head), *(goal.row() for goal in goals)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def put_into(text: str, table: str) -> str:
    """The text with the table between its marks."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}"
