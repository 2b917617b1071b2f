"""The stages of a check. Each is bounded in time, and ends as done, failed with its reason, or not run.

A reason is made of words of this program and of the names of exceptions. What an exception says may hold a path, a
host or a key, and is never kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """How a stage ended."""

    DONE = "done"
    FAILED = "failed"
    NOT_RUN = "not run"


class StageError(Exception):
    """A stage that cannot go on; its words are for the report."""


@dataclass(slots=True)
class Outcome:
    """The result of a stage: its figures, its part of the report in Markdown, and the checks that did not hold."""

    name: str
    title: str
    state: State = State.NOT_RUN
    reason: str = ""
    took_s: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    missed: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        """Whether the stage was run to its end, and each of its checks held."""
        return self.state is State.DONE and not self.missed

    def check(self, held: bool, words: str) -> None:
        """Keep ``words`` where a check did not hold."""
        if not held:
            self.missed.append(words)


#: Called with what is done, and the share of the stage that is done, 0 to 1.
Show = Callable[[str, float], None]
#: Measures one stage, and writes what it finds into its outcome.
Play = Callable[[Outcome, Show], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the check, the most time it may take, and the stage that it cannot be run without."""

    name: str
    title: str
    within_s: float
    play: Play
    needs: str = ""


async def play_all(stages: Sequence[Stage], outcomes: list[Outcome], show: Show, ended: Callable[[], None]) -> bool:
    """Run one stage after another, and call ``ended`` after each; False where it was cancelled.

    ``outcomes`` has one for each stage from the beginning, so that a report can be written at any time.
    """
    share = 1 / len(stages)
    outcomes += [Outcome(stage.name, stage.title) for stage in stages]
    for place, (stage, outcome) in enumerate(zip(stages, outcomes, strict=True)):
        lacking = next((one for one in outcomes if one.name == stage.needs and one.state is not State.DONE), None)
        if lacking is not None:
            outcome.reason = f"needs the stage {lacking.name}"
            continue
        begin_s = asyncio.get_running_loop().time()

        def part(words: str, done: float, title: str = stage.title, before: float = place * share) -> None:
            show(f"{title}: {words}", before + share * done)

        part("begins", 0.0)
        cancelled = await _play(stage, outcome, part)
        outcome.took_s = round(asyncio.get_running_loop().time() - begin_s, 1)
        if cancelled:
            for left in outcomes[place + 1 :]:
                left.reason = "interrupted"
        ended()
        if cancelled:
            return False
    return True


async def _play(stage: Stage, outcome: Outcome, show: Show) -> bool:
    """Run one stage, and write down how it ended; True where it was cancelled."""
    outcome.state = State.FAILED
    try:
        async with asyncio.timeout(stage.within_s) as limit:
            await stage.play(outcome, show)
        outcome.state = State.DONE
    except asyncio.CancelledError:
        outcome.reason = "interrupted"
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        return True
    except StageError as error:
        outcome.reason = str(error)
    except Exception as error:
        late = limit.expired()
        outcome.reason = f"took longer than {stage.within_s:g} s" if late else f"ended with {type(error).__name__}"
    return False
