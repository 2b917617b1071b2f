"""The report of a run: a table row for each figure, the misses that are not accepted, and the list's stale entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accepted import Accepted
from goal import Goal


@dataclass(frozen=True, slots=True)
class Line:
    """One figure, and the reason why its miss is accepted; ``reason`` is empty for a figure that is met."""

    goal: Goal
    reason: str = ""

    @property
    def fails(self) -> bool:
        """Whether it is a miss that is not listed as accepted."""
        return not self.goal.met and not self.reason

    def row(self) -> list[str]:
        """The cells of its line in the table."""
        goal = self.goal
        sign, unit = "≤" if goal.most else "≥", f" {goal.unit}" if goal.unit else ""
        reason = f": {self.reason}" if self.reason else ""
        verdict = goal.margin if goal.met else f"**missed** ({goal.margin}){reason}"
        note = f" ({goal.note})" if goal.note else ""
        return [goal.name, goal.figure + note, f"{sign} {goal.target:g}{unit}", f"{goal.reached:.4g}{unit}", verdict]


def judged(goal: Goal, accepted: Accepted) -> Line:
    """The line of a figure; a listed miss gets its reason."""
    return Line(goal, "" if goal.met else accepted.get((goal.name, goal.figure), ""))


def stale(lines: Iterable[Line], accepted: Accepted) -> list[str]:
    """A sentence for each listed miss that is met in this run, or that belongs to a goal that was run and has no such
    figure."""
    seen = {(line.goal.name, line.goal.figure): line.goal for line in lines}
    names = {name for name, _ in seen}
    found = []
    for key in accepted:
        if key in seen and seen[key].met:
            found.append(f"{' '.join(key)}: listed as an accepted miss, but met in this run")
        elif key not in seen and key[0] in names:
            found.append(f"{' '.join(key)}: listed as an accepted miss, but there is no such figure")
    return found


def as_markdown(lines: Iterable[Line]) -> str:
    """The table for a page."""
    return table(["goal", "figure", "target", "reached", "margin"], [line.row() for line in lines])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def put_into(text: str, figures: str, name: str = "figures") -> str:
    """The text with the figures between the marks of this name."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{figures}\n{end}{after}"


def put_rows(text: str, lines: Sequence[Line], name: str = "figures") -> str:
    """The text with these lines in the table between the marks of this name; rows of other goals stay as they are."""
    between = text.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    rows = [row for row in between.splitlines() if row.startswith("| ")][2:]
    played = {line.goal.name for line in lines}
    own = [row.removeprefix("| ").partition(" | ")[0] in played for row in rows]
    first = own.index(True) if True in own else len(rows)
    head, rule, *new = as_markdown(lines).splitlines()
    before, after = ([row for row, gone in zip(rows[part], own[part], strict=True) if not gone]
                     for part in (slice(first), slice(first, None)))  # fmt: skip
    return put_into(text, "\n".join((head, rule, *before, *new, *after)), name)


def summary(lines: Sequence[Line], accepted: Accepted) -> list[str]:
    """The sentences below the table: how many figures are met, the notes, and the misses that are not accepted."""
    sentences = [f"{sum(line.goal.met for line in lines)} of {len(lines)} figures reach their goal"]
    sentences += [f"note: {one}" for one in stale(lines, accepted)]
    sentences += [f"missed, and not accepted: {line.goal.name} {line.goal.figure}" for line in lines if line.fails]
    return sentences
