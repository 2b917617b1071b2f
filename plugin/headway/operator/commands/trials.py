"""Trials of a preset on a running server: the watch that takes a switch back by itself, and what it saw.

The server decides, whatever becomes of the operator's terminal: a task looks once a second at how the requests that
arrived since the switch are served, and ends the trial. Any other change of the preset or its limit ends it too; then
nothing is taken back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace

from headway.admission import Gate
from headway.api import schema
from headway.background_tasks import BackgroundTasks
from headway.operator.commands.operator_limit import OperatorLimit
from headway.recorder import ServedLog, ended_by_kind
from headway_policies import AdmissionState, Outcome, Preset
from headway_policies.trial import ALL, Served, Trial, TrialEnd, TrialResult, TrialTerms

TASK = "preset trial"
LOOK_EVERY_S = 1.0
#: A look is at the figures of so many seconds.
LOOK_BACK_S = 10.0
#: The figures of so many seconds before the switch are kept for comparison.
BEFORE_S = 60.0


@dataclass(frozen=True, slots=True)
class PresetTrial:
    """A trial: the preset, what comes back, and what was served before and during it, by class.

    ``counted`` are the outcomes since the server's start as they were at the switch, ``ended`` those since the switch.
    ``standing`` is the operator's limit that comes back with it, where it had one without an end. ``now`` are the
    figures of the last ``LOOK_BACK_S`` seconds at the last look, None where nothing could be judged.
    ``result`` is None while it goes on, ``ended_s`` the time of the gate's clock at its end.
    """

    preset: Preset
    revision: int
    back_to: Preset
    trial: Trial
    standing: OperatorLimit | None = None
    before: Mapping[str, Served] = field(default_factory=dict)
    counted: Mapping[str, Counter[Outcome]] = field(default_factory=dict)
    ended: Mapping[str, Counter[Outcome]] = field(default_factory=dict)
    now: Mapping[str, Served] | None = None
    result: TrialResult | None = None
    ended_s: float | None = None

    @property
    def terms(self) -> TrialTerms:
        """The terms that end the trial."""
        return self.trial.terms


class PresetTrials:
    """The trial of one server: the present one, or the last. Call it on the event loop's thread only."""

    def __init__(self, gate: Gate, served: ServedLog, tasks: BackgroundTasks) -> None:
        self.last: PresetTrial | None = None
        self._gate = gate
        self._served = served
        self._tasks = tasks

    @property
    def running(self) -> PresetTrial | None:
        """The trial that goes on."""
        return self.last if self.last is not None and self.last.result is None else None

    def before(self) -> dict[str, Served]:
        """How the last minute was served: to be read before a switch."""
        now_s = self._gate.now_s()
        return self._served.between(now_s - BEFORE_S, now_s, self._gate.unanswered())

    def begin(
        self,
        terms: TrialTerms,
        back_to: Preset,
        standing: OperatorLimit | None,
        before: Mapping[str, Served],
        decided: Callable[[PresetTrial], Awaitable[None]],
    ) -> PresetTrial:
        """Begin a trial of the preset in force. ``decided`` is awaited when the server itself has ended it."""
        desk, now_s = self._gate.desk, self._gate.now_s()
        self.last = PresetTrial(
            desk.preset, desk.mode.revision, back_to, Trial(terms, now_s), standing, before, self._outcomes()
        )
        self._tasks.start(TASK, self._watch(decided))
        return self.last

    def end(self, result: TrialResult) -> PresetTrial | None:
        """End the running trial; None without one."""
        running = self.running
        if running is None:
            return None
        self.last = replace(running, ended=self._ended(running), result=result, ended_s=self._gate.now_s())
        self._tasks.stop(TASK)
        return self.last

    def left_s(self) -> float | None:
        """The longest rest of the running trial; None without one."""
        return None if self.running is None else max(0.0, self.running.trial.ends_s - self._gate.now_s())

    def report(self, trial: PresetTrial) -> schema.Trial:
        """The trial as operators see it."""
        result, now_s = trial.result, self._gate.now_s() if trial.ended_s is None else trial.ended_s
        held_s = trial.trial.held_s(now_s)
        return schema.Trial(
            name=trial.preset.name,
            revision=trial.revision,
            back_to=trial.back_to.name,
            end=None if result is None else result.end,
            why="" if result is None else result.why,
            left_s=None if result is not None else max(0.0, trial.trial.ends_s - now_s),
            revert_after_s=trial.terms.revert_after_s,
            conditions=[
                schema.TrialCondition(
                    text=str(condition),
                    reading=None if trial.now is None else condition.reading(trial.now),
                    held_s=held,
                )
                for condition, held in zip(trial.terms.revert_if, held_s, strict=True)
            ],
            before=_served(trial.before),
            now=None if trial.now is None else _served(trial.now),
            ended={name: _counted(outcomes) for name, outcomes in trial.ended.items()},
        )

    # ------------------------------------------------------------------ inside

    async def _watch(self, decided: Callable[[PresetTrial], Awaitable[None]]) -> None:
        while (running := self.running) is not None:
            await asyncio.sleep(min(LOOK_EVERY_S, max(0.0, running.trial.ends_s - self._gate.now_s())))
            result = self._look(running)
            if result is not None:
                assert self.last is not None
                self.last = replace(self.last, result=result, ended_s=self._gate.now_s())
                await decided(self.last)

    def _look(self, running: PresetTrial) -> TrialResult | None:
        now_s, trial = self._gate.now_s(), running.trial
        served = self._figures(trial.began_s, now_s)
        self.last = replace(running, now=served, ended=self._ended(running))
        return trial.look(served, now_s)

    def _outcomes(self) -> dict[str, Counter[Outcome]]:
        """The outcomes of each class since the server's start."""
        return {name: counts.outcomes.copy() for name, counts in self._gate.desk.ledger.classes.items()}

    def _ended(self, trial: PresetTrial) -> dict[str, Counter[Outcome]]:
        """The outcomes of each class since the switch."""
        return {name: now - trial.counted.get(name, Counter()) for name, now in self._outcomes().items()}

    def _figures(self, began_s: float, now_s: float) -> Mapping[str, Served] | None:
        """The figures of the arrivals since the switch; None while requests cannot be completed."""
        desk = self._gate.desk
        if not desk.mode.engine_up or desk.mode.state is not AdmissionState.OPEN:
            return None
        since_s = max(began_s, now_s - LOOK_BACK_S)
        return self._served.between(since_s, now_s, self._gate.unanswered(), arrived_s=began_s)


def _served(figures: Mapping[str, Served]) -> schema.ServedByClass:
    by_class = {name: schema.ServedFigures(**asdict(figure)) for name, figure in figures.items()}
    return schema.ServedByClass(all=by_class.pop(ALL, schema.ServedFigures()), classes=by_class)


def _counted(outcomes: Mapping[Outcome, int]) -> schema.EndedRequests:
    completed, refused, timed_out, failed = ended_by_kind(outcomes)
    ended = completed + refused + timed_out + failed
    return schema.EndedRequests(ended=ended, completed=completed, refused=refused, timed_out=timed_out, failed=failed)


def overtaken_by(change: str) -> TrialResult:
    """The end of a trial by another change."""
    return TrialResult(TrialEnd.OVERTAKEN, f"{change} was put in force before its end")


def confirmed_by(actor: str) -> TrialResult:
    """The end of a trial by a confirmation."""
    return TrialResult(TrialEnd.KEPT, f"confirmed by {actor}")
