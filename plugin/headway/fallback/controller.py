"""The fallback controller: watches for trouble, moves the fallback ladder, and says so.

A few times a second it shows the ladder what there is to see; whatever is in force then, it hands to ``apply``, which
tells the desk. Every move is logged, counted and kept for operators.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from headway.admission import Gate
from headway.errors import UnknownRungError
from headway.fallback.client import FallbackClient
from headway_policies import Load, Outcome, Reason
from headway_policies.fallback import (
    Degradation,
    ErrorRate,
    FallbackSignals,
    Ladder,
    Rung,
    Trigger,
    diverts,
    queue_age_s,
)
from headway_policies.preset import usable_rungs
from headway_policies.request import Timeouts

log = logging.getLogger(__name__)

LOOK_S = 0.25
_MOVES_KEPT = 50
_FAILED = (Outcome.FAILED, Outcome.ENGINE_LOST)
_ANSWERED = (Outcome.COMPLETED, Outcome.EXPIRED_RUNNING)

Apply = Callable[[frozenset[Rung]], None]


@dataclass(frozen=True, slots=True)
class Move:
    """One step of the ladder."""

    time: str
    before: str
    after: str
    trigger: str


class FallbackController:
    """Looks after one gate. ``load`` gives the engine's last figures. Call it on the event loop's thread only."""

    def __init__(
        self,
        gate: Gate,
        load: Callable[[], Load],
        *,
        apply: Apply | None = None,
        upstream: FallbackClient | None = None,
    ) -> None:
        self.upstream = upstream
        self.apply = apply
        self.degraded: Counter[tuple[str, Degradation]] = Counter()
        self._gate = gate
        self._load = load
        self._errors = ErrorRate()
        self._moves: deque[Move] = deque(maxlen=_MOVES_KEPT)
        self._applied: frozenset[Rung] = frozenset()
        self._order_failed: str | None = None
        preset = gate.desk.preset
        self.ladder = Ladder(preset.fallback, usable_rungs(preset, upstream=upstream is not None))

    def connect(self, upstream: FallbackClient) -> None:
        """Another model may answer from now on."""
        self.upstream = upstream
        self.adopt()

    async def run(self) -> None:
        """Look, for as long as the server runs."""
        try:
            while True:
                try:
                    self.look()
                except Exception:  # whatever goes wrong here must not leave the ladder where it is for ever
                    log.exception("the fallback controller stumbled")
                await asyncio.sleep(LOOK_S)
        finally:
            if self.upstream is not None:
                await self.upstream.close()

    def look(self) -> Rung:
        """Show the ladder what there is to see now; say when an order of somebody else's went wrong."""
        self._tell_of_the_order()
        before, now_s = self.ladder.rung, self._gate.now_s()
        self.ladder.update(self.signs(now_s), now_s)
        return self._moved(before, self.ladder.why)

    def signs(self, now_s: float) -> FallbackSignals:
        """What there is to see. The KV use of the last step says nothing of an engine that has nothing to do."""
        desk, config = self._gate.desk, self._gate.desk.preset.fallback
        failed, ended = self._counts()
        return FallbackSignals(
            queue_age_s=queue_age_s(desk.oldest_wait_s(now_s), desk.preset.classes),
            kv_usage_ratio=self._load().kv_usage_ratio if desk.seats_taken else 0.0,
            error_ratio=self._errors.update(
                failed, ended, now_s, window_s=config.error_window_s, least=config.error_min_requests
            ),
            engine_up=desk.engine_up,
        )

    def order(self, word: str | None) -> Rung:
        """Put the ladder on a rung until told otherwise; None: let it move by itself. Raises UnknownRungError."""
        before = self.ladder.rung
        try:
            rung = None if word is None else Rung[word.upper()]
            self.ladder.operator(rung, self._gate.now_s())
        except KeyError:
            known = ", ".join(one.word for one in Rung)
            raise UnknownRungError(f"there is no rung {(word or '')[:40]!r}; the rungs are: {known}") from None
        except ValueError as error:
            raise UnknownRungError(str(error)) from None
        return self._moved(before, Trigger.OPERATOR)

    def adopt(self) -> Rung:
        """The preset in force has changed, or what the server can do."""
        before, preset = self.ladder.rung, self._gate.desk.preset
        rungs = usable_rungs(preset, upstream=self.upstream is not None)
        self.ladder.switch(preset.fallback, rungs, self._gate.now_s())
        return self._moved(before, self.ladder.why)

    def diverts(self, class_name: str, refused: Reason | None = None) -> bool:
        """Whether another model should answer a request of this class now, seen why it was refused here, if it was."""
        terms = self._gate.desk.preset.classes.get(class_name)
        return self.upstream is not None and terms is not None and diverts(terms, self.ladder.in_force, refused)

    def time_left_s(self, class_name: str, asked: Timeouts, passed_s: float) -> float | None:
        """How much of its total time a request has left; None where it has no end."""
        total_s = self._gate.desk.preset.classes[class_name].timeouts().shortened_by(asked).total_s
        return None if total_s is None else total_s - passed_s

    def lost(self, class_name: str, loss: Degradation) -> None:
        """Count what a request had to do without."""
        self.degraded[class_name, loss] += 1

    def status(self) -> dict[str, Any]:
        """For operators."""
        ladder, upstream = self.ladder, self.upstream
        return {
            "rung": ladder.rung.word,
            "ordered": None if ladder.ordered is None else ladder.ordered.word,
            "trigger": ladder.why,
            "in_force": [rung.word for rung in sorted(ladder.in_force)],
            "usable": [rung.word for rung in ladder.usable],
            "upstream": None
            if upstream is None
            else {"model": upstream.model, "breaker": upstream.breaker.state, "in_flight": upstream.in_flight},
            "moves": [asdict(move) for move in self._moves],
        }

    # ------------------------------------------------------------------ inside

    def _counts(self) -> tuple[int, int]:
        """What failed so far, and what the engine has ended in all."""
        outcomes = [one.outcomes for one in self._gate.desk.ledger.classes.values()]
        failed = sum(one[outcome] for one in outcomes for outcome in _FAILED)
        return failed, failed + sum(one[outcome] for one in outcomes for outcome in _ANSWERED)

    def _tell_of_the_order(self) -> None:
        """Once for each that was put aside."""
        failed = self._gate.desk.order_failed
        if failed is not None and failed != self._order_failed:
            ordering = self._gate.desk.preset.ordering
            log.error("the order of the preset (%s, %s) was put aside: %s", ordering.between, ordering.inside, failed)
        self._order_failed = failed

    def _moved(self, before: Rung, trigger: Trigger | None) -> Rung:
        """Tell everybody of a move, and the desk what is in force."""
        after, in_force = self.ladder.rung, self.ladder.in_force
        if after is not before:
            cause = str(trigger or "quiet")
            say = log.warning if after > before else log.info
            say("fallback: %s -> %s (%s)", before.word, after.word, cause)
            time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            self._moves.appendleft(Move(time, before.word, after.word, cause))
        if in_force != self._applied and self.apply is not None:
            self.apply(in_force)
            self._applied = in_force
        return after
