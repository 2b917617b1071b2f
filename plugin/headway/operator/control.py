"""Commands of one running server: switch of the preset, commands of a limit or a fallback rung, recycle of the engine.

``admission`` has the commands to pause, drain and resume, ``warmups`` that of a warm-up beside the traffic.

A switch is one synchronous step at the gate, then one call into the engine; everything that can refuse it is checked
before the first of them. ``status`` and ``snapshot`` read, and change nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from headway.api import schema
from headway.audit import Caller, plain
from headway.errors import (
    HeadwayError,
    LimitCommandError,
    NoTrialError,
    StaleRevisionError,
    UnknownRevisionError,
    UnusablePresetError,
)
from headway.operator.commands.operator_limit import OperatorLimit
from headway.operator.commands.trials import PresetTrial, confirmed_by, overtaken_by
from headway.operator.forecasts import PresetForecasts
from headway.operator.status.snapshot_reader import SnapshotReader
from headway.recorder import Recorder, Recording
from headway.usage import UsageReader
from headway_policies import Change, Preset, PresetError, changes
from headway_policies.import_path import FAILURES, cause
from headway_policies.preset import differences, effective, lint, with_fixed_limit
from headway_policies.trial import NO_TRIAL, TrialEnd, TrialTerms

APPLIED = "applied"
UNCONFIRMED = "applied; the engine has not confirmed its limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control(SnapshotReader):
    """The commands of one server, and its readings of itself. Call it on the event loop's thread only."""

    recorder: Recorder
    forecasts: PresetForecasts
    warm_engine: Callable[[], Awaitable[None]] | None = None
    usage: UsageReader | None = None

    @property
    def preset(self) -> Preset:
        """The preset in force."""
        return self.gateway.gate.desk.preset

    @property
    def revision(self) -> int:
        """The number of the preset in force; every switch raises it by one."""
        return self.gateway.gate.desk.mode.revision

    async def switch(
        self,
        name: str,
        *,
        expected_revision: int | None,
        caller: Caller,
        reason: str = "",
        trial: TrialTerms = NO_TRIAL,
    ) -> schema.Switched:
        """Put a preset in force; the one that is in force already keeps its revision, and nothing is recorded.

        The preset is in force at once; this returns when the engine has its limit, or could not be reached. On
        ``trial`` the server takes it back by itself unless it is kept. Raises UnknownPresetError, StaleRevisionError,
        or UnusablePresetError when a custom policy cannot be made; then nothing has changed.
        """
        return await self._switch_to(lambda: self.catalogue.get(name), name, expected_revision, caller, reason, trial)

    def keys_changed(self, words: str) -> None:
        """Record that the keys file is another one: which tenants and keys."""
        self.audit.command(Caller(actor="keys file"), "change keys", self.gateway.gate.desk, words, "done")

    def keep(self, *, expected_revision: int | None, caller: Caller, reason: str = "") -> schema.Trial:
        """End the trial of the preset in force: it stays. Raises NoTrialError or StaleRevisionError."""
        name, revision = self.preset.name, self.revision
        try:
            self._check_revision(expected_revision)
            if self.trials.running is None:
                raise NoTrialError("no preset is on trial")
        except HeadwayError as error:
            self._record("end_trial", caller, name, name, reason, f"refused: {error}", revision)
            raise
        ended = self.trials.end(confirmed_by(caller.actor))
        assert ended is not None
        self._record_end(ended, caller, reason)
        return self.trials.report(ended)

    async def undo(
        self, revision: int | None = None, *, expected_revision: int | None, caller: Caller, reason: str = ""
    ) -> schema.Switched:
        """Put the settings of an earlier revision in force again, as they were then; None: of the one before.

        As a new revision, so that an undo can be undone. Raises UnknownRevisionError, StaleRevisionError or
        UnusablePresetError; then nothing has changed.
        """
        wanted = "the revision before" if revision is None else f"revision {revision}"
        return await self._switch_to(lambda: self._earlier(revision), wanted, expected_revision, caller, reason)

    async def order_limit(
        self,
        seats: int | None,
        *,
        window_ms: float | None = None,
        expires_s: float | None = None,
        expected_revision: int | None,
        caller: Caller,
        reason: str = "",
    ) -> schema.Switched:
        """Put the preset in force on a fixed number of seats; None: back to what was in force before the command.

        With ``expires_s`` the server goes back by itself after so long. A command that changes no setting keeps the
        revision: only its end counts. Raises StaleRevisionError, LimitCommandError, or UnusablePresetError; then
        nothing has changed.
        """
        before, words = self.preset, self._in_force_words
        if seats is None:
            return await self._end_limit(expected_revision, caller, reason)
        now_s = self.gateway.gate.now_s()
        limit = self.limits.next(seats, window_ms, before, None if expires_s is None else now_s + expires_s)
        limit = replace(limit, actor=plain(caller.actor), reason=plain(reason))
        said = f"{limit.words}, {'until the next switch' if expires_s is None else f'for {expires_s:g} s'}"
        try:
            self._check_revision(expected_revision)
            after, taken_over = self._limited(limit), limit.takes_over(self.limits.in_force)
            same = not changes(before, after)
            revision = self.revision if same else self._put_in_force(after)
        except HeadwayError as error:
            self._record("order_limit", caller, words, said, reason, f"refused: {error}", self.revision)
            raise
        self.limits.adopt(limit, now_s, self._expire)
        if same:
            if expires_s is None or taken_over:
                self._record("order_limit", caller, words, said, reason, APPLIED, revision)
            return self._nothing_changed()
        return await self._tell_engine("order_limit", caller, before, (words, said), reason, revision)

    def order_fallback(self, word: str | None, *, caller: Caller, reason: str = "") -> None:
        """Put the fallback ladder on a rung; None: let it move by itself. Raises UnknownRungError.

        A command that changes nothing is not recorded.
        """
        ladder = self.fallback_controller.ladder
        before, ordered = ladder.rung.word, ladder.ordered
        try:
            after = self.fallback_controller.put_on(word).word
        except HeadwayError as error:
            wanted, result = (word or "auto")[:60], f"refused: {error}"
            self._record("order_fallback", caller, before, wanted, reason, result, self.revision)
            raise
        if ladder.ordered is not ordered:
            self._record("order_fallback", caller, before, after, reason, APPLIED, self.revision)

    async def warm_up(self) -> None:
        """Warm the engine up now, as the preset's ``[warmup]`` says; ``status()["warmup"]`` has the report.

        Raises HeadwayError where it fails, which is retried in the background, or nothing makes its requests.
        """
        if self.warm_engine is None:
            raise HeadwayError("this engine has no warm-up")
        await self.warm_engine()

    def recycle(self, caller: Caller, reason: str = "") -> None:
        """Replace the engine by a new one in the background, once the running requests have finished.

        Raises CannotReplaceError or NotNowError (``headway.supervision``); then nothing has changed.
        """
        self.engine_recycle.begin(caller, reason)

    def refused(self, caller: Caller, action: str, why: str) -> None:
        """Record an attempt that was refused before it was read."""
        self.audit.refuse(caller, action, why, preset=self.preset.name, revision=self.revision)

    def warnings(self, preset: Preset) -> list[str]:
        """The warnings of ``headway preset validate``, of seats that this engine cannot use, and of inactive parts."""
        void = self.no_effect(preset, stated_only=True)
        return [*lint(preset, self.seat_bounds(preset)), *void.values()]

    def recording(self) -> Recording:
        """The arrivals of the last half hour."""
        return self.recorder.recording(self.gateway.gate.now_s())

    # ------------------------------------------------------------------ inside

    @property
    def _in_force_words(self) -> str:
        """The preset in force, with the limit that an operator has set, for the audit."""
        limit = self.limits.in_force
        return self.preset.name if limit is None else limit.words

    def _check_revision(self, expected: int | None) -> None:
        if expected is not None and expected != self.revision:
            raise StaleRevisionError(self.revision)

    async def _switch_to(
        self,
        find: Callable[[], Preset],
        wanted: str,
        expected_revision: int | None,
        caller: Caller,
        reason: str,
        trial: TrialTerms = NO_TRIAL,
        standing: OperatorLimit | None = None,
    ) -> schema.Switched:
        """Put the preset that is found in force; ``wanted`` names it in the audit log where it is not found.

        ``standing`` is the operator's limit that it has, where it comes back with one.
        """
        before, words, limit = self.preset, self._in_force_words, self.limits.in_force
        served = self.trials.before() if trial else {}
        try:
            self._check_revision(expected_revision)
            after = find()
            if after.name == before.name and not changes(before, after):
                self.limits.leave(standing)
                return self._nothing_changed()
            revision = self._put_in_force(after)
        except HeadwayError as error:
            self._record("switch_preset", caller, words, wanted[:60], reason, f"refused: {error}", self.revision)
            raise
        self.limits.leave(standing)
        said, begun = self._in_force_words, None
        if trial:  # at once, whatever becomes of the caller while the engine is told
            back_to, last = (before, limit) if limit is None or limit.ends_s is None else (limit.back_to, limit.beneath)
            begun, said = self.trials.begin(trial, back_to, last, served, self._decided), f"{after.name}, on trial"
        done = await self._tell_engine("switch_preset", caller, before, (words, said), reason, revision)
        return done if begun is None else done.model_copy(update={"trial": self.trials.report(begun)})

    async def _decided(self, ended: PresetTrial) -> None:
        """The server has ended a trial: take the preset back, or leave it."""
        assert ended.result is not None
        caller, why = Caller("headway"), ended.result.why
        self._record_end(ended, caller)
        if ended.result.end is TrialEnd.REVERTED:
            with suppress(HeadwayError):  # it stands in the audit log
                back_to = ended.back_to
                await self._switch_to(
                    lambda: back_to, back_to.name, ended.revision, caller, why, standing=ended.standing
                )

    def _record_end(self, ended: PresetTrial, caller: Caller, reason: str = "") -> None:
        """Record how a trial ended, and why."""
        assert ended.result is not None
        name, words = ended.preset.name, f"{ended.result.end}: {ended.result.why}"
        self._record("end_trial", caller, name, name, reason, words, ended.revision)

    def _earlier(self, revision: int | None) -> Preset:
        """The preset of an earlier revision. Raises UnknownRevisionError."""
        number = self.history.before(self.revision, self.preset) if revision is None else revision
        known = self.history.presets
        if number is None:
            raise UnknownRevisionError("there is no revision before this one")
        if number not in known:
            last = f"{min(known)} to {max(known)}"
            raise UnknownRevisionError(f"revision {number} is not known; known revisions: {last}")
        return known[number]

    def _nothing_changed(self) -> schema.Switched:
        return self._switched(self.preset.name, self.preset, self.revision, [])

    def _limited(self, limit: OperatorLimit) -> Preset:
        """The preset of a command. Raises LimitCommandError."""
        ceiling = self.gateway.gate.desk.ceiling
        if ceiling is not None and limit.seats > ceiling:
            raise LimitCommandError(f"{limit.seats} seats are more than the {ceiling} that the engine was started with")
        try:
            return with_fixed_limit(limit.own, limit.seats, limit.window_ms)
        except PresetError as error:
            raise LimitCommandError(str(error)) from None

    async def _end_limit(self, expected_revision: int | None, caller: Caller, reason: str) -> schema.Switched:
        """Restore the settings from before the command of a limit; without such a command nothing changes."""
        limit, before, words = self.limits.in_force, self.preset, self._in_force_words
        try:
            self._check_revision(expected_revision)
            if limit is None or not changes(before, limit.back_to):
                self.limits.leave(None if limit is None else limit.beneath)
                return self._nothing_changed()
            revision = self._put_in_force(limit.back_to)
        except HeadwayError as error:
            self._record("order_limit", caller, words, "its own limit", reason, f"refused: {error}", self.revision)
            raise
        self.limits.leave(limit.beneath)
        said = (words, self._in_force_words)
        return await self._tell_engine("order_limit", caller, before, said, reason, revision)

    async def _expire(self, limit: OperatorLimit) -> None:
        """The time of a command is over: go back to what was in force before it."""
        before, words = self.preset, self._in_force_words
        self.limits.expire(limit)
        if not changes(before, limit.back_to):
            return
        caller, reason = Caller("headway"), "the time of the command is over"
        try:
            revision = self._put_in_force(limit.back_to)
        except HeadwayError as error:
            self._record("order_limit", caller, words, limit.back_to.name, reason, f"failed: {error}", self.revision)
            return
        await self._tell_engine("order_limit", caller, before, (words, self._in_force_words), reason, revision)

    async def _tell_engine(
        self, action: str, caller: Caller, before: Preset, words: tuple[str, str], reason: str, revision: int
    ) -> schema.Switched:
        """Count a change that the gate has made, tell the engine its limit, and record both."""
        after, limit = self.preset, self.limits.in_force
        self.history.switched(after if limit is None else limit.own, revision)
        if action == "switch_preset":
            self.forecast_errors.switched(after)
        try:
            await self.gateway.link.limit_engine()
        finally:  # also when the caller is cancelled meanwhile: the preset is in force
            confirmed = self.gateway.link.limit_confirmed
            result = APPLIED if confirmed else UNCONFIRMED
            self._record(action, caller, *words, reason, result, revision)
        changed = differences(effective(before.settings()), effective(after.settings()))
        return self._switched(before.name, after, revision, changed)

    def _switched(self, previous: str, after: Preset, revision: int, changed: Sequence[Change]) -> schema.Switched:
        """The result of a change to ``after``, which another change may have replaced since."""
        return schema.Switched(
            name=after.name,
            revision=revision,
            previous=previous,
            changes=[
                schema.SettingChange(setting=change.setting, before=change.before, after=change.after)
                for change in changed
            ],
            engine_limit_confirmed=self.gateway.link.limit_confirmed,
            warnings=self.warnings(after),
        )

    def _put_in_force(self, preset: Preset) -> int:
        """Switch the gate and the fallback ladder in one synchronous step; returns the revision."""
        ladder = self.fallback_controller.ladder_under(preset)
        try:
            revision = self.gateway.gate.switch(preset, ladder.in_force)
        except FAILURES as error:  # of a custom policy: the desk makes all it needs before it changes
            if not preset.named_policies():
                raise
            what = f"{preset.name}: a policy it names cannot be made: {cause(error)}"
            raise UnusablePresetError(what, preset.unusable_policies()) from error
        self.fallback_controller.adopt(ladder)
        overtaken = self.trials.end(overtaken_by(preset.name))
        if overtaken is not None:
            self._record_end(overtaken, Caller("headway"))
        return revision

    def _record(
        self, action: str, caller: Caller, before: str, after: str, reason: str, result: str, revision: int
    ) -> None:
        self.audit.record(caller, action, before=before, after=after, revision=revision, reason=reason, result=result)
