"""The fallback controller: moves the fallback ladder by the signals of the server.

A few times a second it gives the ladder the signals and the rungs in force to ``apply``, which passes them to the desk;
not while the server rests, when nothing could move.
Every move is logged, counted and kept for operators.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any

from headway.admission import EngineCall, Gate
from headway.api.schema import FallbackModel, FallbackMove, FallbackState
from headway.background_tasks import TURN_S, sleep_until_turn
from headway.errors import UnknownRungError
from headway.fallback.fixed_reply import FixedReply
from headway.fallback.other_engine import OtherEngine
from headway.fallback.other_model import OtherModel
from headway.utc_text import utc_text
from headway_policies import Block, Load, Outcome, Preset, Reason
from headway_policies.desk import DeskReading
from headway_policies.fallback import (
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

UPDATE_S = TURN_S
_MOVES_KEPT = 50
_FAILED = (Outcome.FAILED, Outcome.ENGINE_LOST)
_LATE = (Reason.QUEUE_TIMEOUT, Reason.FIRST_TOKEN_TIMEOUT, Reason.TOTAL_TIMEOUT)
_ANSWERED = (Outcome.COMPLETED, Outcome.EXPIRED_RUNNING)

Apply = Callable[[frozenset[Rung]], None]


class FallbackController:
    """The controller of one gate. ``load`` gives the engine's last figures. Call it on the event loop's thread only."""

    def __init__(
        self,
        gate: Gate,
        load: Callable[[], Load],
        *,
        apply: Apply | None = None,
        other_model: OtherModel | None = None,
    ) -> None:
        self.other_model = other_model
        self.apply = apply
        self._gate = gate
        self._load = load
        self._errors = ErrorRate()
        self._moves: deque[FallbackMove] = deque(maxlen=_MOVES_KEPT)
        self._applied: frozenset[Rung] = frozenset()
        self._order_failed: str | None = None
        self._window_failed: str | None = None
        self._seen: tuple[int, int] | None = None
        self._busy_s = 0.0
        preset = gate.desk.preset
        self.ladder = Ladder(preset.fallback, self._usable_rungs(preset))

    async def run(self) -> None:
        """Update the ladder, for as long as the server runs."""
        try:
            while True:
                try:
                    self.update()
                except Exception:  # an error here must not leave the ladder on its rung for ever
                    log.exception("fallback controller: iteration failed")
                await sleep_until_turn(UPDATE_S)
        finally:
            if self.other_model is not None:
                await self.other_model.close()

    def update(self) -> Rung:
        """Give the ladder the present signals; log a custom order or window that was disabled."""
        now_s = self._gate.now_s()
        if self._rests(now_s):
            return Rung.NORMAL
        before, reading = self.ladder.rung, self._gate.desk.read(now_s)
        self._log_disabled_order(reading.order_failed)
        self._log_disabled_window(reading.window_failed)
        self.ladder.update(self.signals(reading, now_s), now_s)
        return self._moved(before, self.ladder.why)

    def signals(self, reading: DeskReading, now_s: float) -> FallbackSignals:
        """The present signals. The KV use of the last step says nothing about an idle engine.

        A router without an instance has no engine. While nothing is dispatched, the queue ages for another cause than
        the load: to refuse some would speed up none.
        """
        desk, config = self._gate.desk, self._gate.desk.preset.fallback
        failed, ended = self._counts()
        return FallbackSignals(
            queue_age_s=queue_age_s(reading.oldest_wait_s, desk.preset.classes) if desk.mode.open else 0.0,
            kv_usage_ratio=self._load().kv_usage_ratio if desk.seats_taken else 0.0,
            error_ratio=self._errors.update(
                failed, ended, now_s, window_s=config.error_window_s, min_ended=config.error_min_requests
            ),
            engine_up=self._engine_up,
        )

    def put_on(self, word: str | None) -> Rung:
        """Put the ladder on a rung until the next command; None: let it move by itself. Raises UnknownRungError."""
        before = self.ladder.rung
        try:
            rung = None if word is None else Rung[word.upper()]
            self.ladder.operator(rung, self._gate.now_s())
        except KeyError:
            known = ", ".join(possible.word for possible in Rung)
            raise UnknownRungError(f"there is no rung {(word or '')[:40]!r}; the rungs are: {known}") from None
        except ValueError as error:
            raise UnknownRungError(str(error)) from None
        return self._moved(before, Trigger.OPERATOR)

    def ladder_under(self, preset: Preset) -> Ladder:
        """The ladder under another preset. Nothing changes."""
        return self.ladder.under(preset.fallback, self._usable_rungs(preset), self._gate.now_s())

    def adopt(self, ladder: Ladder) -> None:
        """Go on with the ladder of another preset; the gate has put its rungs in force in the step of the switch."""
        before, self.ladder, self._applied = self.ladder.rung, ladder, ladder.in_force
        self._record_move(before, ladder.why)

    def diverts(self, class_name: str, refused: Reason | None = None) -> bool:
        """Whether the other model should answer a request of this class; ``refused`` is the reason of a refusal. A
        fixed reply may stand in the place of a time-out, whatever the rung.
        """
        other, terms = self.other_model, self._gate.desk.preset.classes.get(class_name)
        if other is None or terms is None:
            return False
        if refused in _LATE and isinstance(other, FixedReply) and class_name in other.late_classes:
            return True
        return diverts(terms, self.ladder.in_force, refused)

    def time_left_s(self, class_name: str, asked: Timeouts, passed_s: float) -> float | None:
        """The part of its total time that a request has left; None where the request has no end."""
        total_s = self._gate.desk.preset.classes[class_name].timeouts().shortened_by(asked).total_s
        return None if total_s is None else total_s - passed_s

    def count_diverted(self, class_name: str) -> None:
        """Count a request of this class that the other model answered."""
        assert self.other_model is not None
        self._gate.count_degraded(class_name, self.other_model.degradation)

    def serve(self, call: EngineCall, timeout_s: float | None) -> AsyncGenerator[Any, None]:
        """Run one call of the program on its other engine. Raises NotServedError before the first output."""
        assert isinstance(self.other_model, OtherEngine)
        return self.other_model.serve(call, timeout_s)

    def status(self) -> FallbackState:
        """The state for operators."""
        ladder, other = self.ladder, self.other_model
        return FallbackState(
            rung=ladder.rung.word,
            ordered=None if ladder.ordered is None else ladder.ordered.word,
            trigger=ladder.why,
            in_force=[rung.word for rung in sorted(ladder.in_force)],
            usable=[rung.word for rung in ladder.usable],
            fallback_model=None
            if other is None
            else FallbackModel(model=other.model, breaker=other.breaker.state, in_flight=other.in_flight),
            moves=list(self._moves),
        )

    # ------------------------------------------------------------------ inside

    @property
    def _engine_up(self) -> bool:
        mode = self._gate.desk.mode
        return mode.engine_up and Block.NO_INSTANCE not in mode.blocks

    def _rests(self, now_s: float) -> bool:
        """Whether no signal could have changed: nothing is or came here for a window of the error rate."""
        ledger, ladder, mode = self._gate.desk.ledger, self.ladder, self._gate.desk.mode
        seen = mode.revision, sum(counts.arrived for counts in ledger.classes.values())
        raised = ladder.in_force or ladder.ordered is not None
        if seen != self._seen or ledger.queued or ledger.in_flight or raised or not self._engine_up:
            self._seen, self._busy_s = seen, now_s
        return now_s > self._busy_s + mode.preset.fallback.error_window_s

    def _counts(self) -> tuple[int, int]:
        """The requests that failed so far, and all that ended in the engine."""
        outcomes = [counts.outcomes for counts in self._gate.desk.ledger.classes.values()]
        failed = sum(counts[outcome] for counts in outcomes for outcome in _FAILED)
        return failed, failed + sum(counts[outcome] for counts in outcomes for outcome in _ANSWERED)

    def _log_disabled_order(self, failed: str | None) -> None:
        """Log a disabled custom order, once for each failure."""
        if failed is not None and failed != self._order_failed:
            ordering = self._gate.desk.preset.ordering
            log.error(
                "the preset's custom order was disabled (between = %r, inside = %r): %s; the weighted order with fair "
                "sharing is used until a preset with another order is in force",
                ordering.between, ordering.inside, failed,
            )  # fmt: skip
        self._order_failed = failed

    def _log_disabled_window(self, failed: str | None) -> None:
        """Log a disabled custom window, once for each failure."""
        if failed is not None and failed != self._window_failed:
            log.error(
                "the preset's custom window was disabled (window = %r): %s; batches gather for the fixed window_ms "
                "until a preset with other batching settings is in force",
                self._gate.desk.preset.batching.window, failed,
            )  # fmt: skip
        self._window_failed = failed

    def _usable_rungs(self, preset: Preset) -> frozenset[Rung]:
        return usable_rungs(preset, fallback_model=self.other_model is not None)

    def _moved(self, before: Rung, trigger: Trigger | None) -> Rung:
        """Record a move, and pass the rungs in force to the desk."""
        self._record_move(before, trigger)
        in_force = self.ladder.in_force
        if in_force != self._applied and self.apply is not None:
            self.apply(in_force)
            self._applied = in_force
        return self.ladder.rung

    def _record_move(self, before: Rung, trigger: Trigger | None) -> None:
        """Log and keep the move from this rung to the current one, where they differ."""
        after = self.ladder.rung
        if after is before:
            return
        cause = str(trigger or "quiet")
        say = log.warning if after > before else log.info
        say("fallback: %s -> %s (%s)", before.word, after.word, cause)
        moved = utc_text(time.time(), "milliseconds")
        self._moves.appendleft(FallbackMove(time=moved, before=before.word, after=after.word, trigger=cause))
