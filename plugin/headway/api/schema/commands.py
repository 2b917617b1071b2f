"""The bodies of commands."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Command(BaseModel):
    """The body of every command. ``actor`` stands in the audit log beside the role of the token."""

    model_config = ConfigDict(extra="forbid", strict=True)

    reason: str = Field(default="", max_length=400)
    actor: str = Field(default="", max_length=80)


class SwitchCommand(Command):
    """Put this preset in force, for good or on trial.

    With ``revert_after_s`` the server itself goes back after so long, unless the trial is kept; with ``revert_if`` as
    soon as one of these conditions has held, such as "realtime.ttft_p95_s > 2 for 30 s".
    """

    name: str = Field(min_length=1, max_length=60)
    revert_after_s: float | None = Field(default=None, ge=1, le=86_400)
    revert_if: list[str] | None = Field(default=None, max_length=10)


class UndoCommand(Command):
    """Put the settings of an earlier revision in force again; null: of the one before."""

    revision: int | None = Field(default=None, ge=1, le=10**15)


class ForecastCommand(Command):
    """Forecast these presets (by default all), or an unsaved preset given as TOML."""

    presets: list[str] | None = Field(default=None, min_length=1, max_length=100)
    toml: str | None = Field(default=None, min_length=1, max_length=12_000)
    within_s: float = Field(default=60.0, ge=1, le=600, description="The results that are ready by then are answered.")
    span_s: float = Field(default=600.0, ge=10, le=1800, description="How much of the recent traffic is replayed.")


class LimitCommand(Command):
    """Put the preset in force on a fixed number of seats; null puts it back.

    ``expires_s`` bounds how long it holds: afterwards the server itself goes back to what was in force before. Without
    it the command holds until the next switch, or a restart.
    """

    seats: int | None = Field(ge=1, le=65_536)
    window_ms: float | None = Field(default=None, ge=0, le=60_000)
    expires_s: float | None = Field(default=None, gt=0, le=3600)


class PauseCommand(Command):
    """Suspend dispatch. With ``expires_s`` the server itself resumes after so long; without, a resume ends it."""

    expires_s: float | None = Field(default=None, gt=0, le=86_400)


class SilenceCommand(Command):
    """Silence an alert for ``expires_s``, at most a week; null ends its silence."""

    alert: str = Field(pattern="^[A-Za-z][A-Za-z0-9_]*$", max_length=80)
    expires_s: float | None = Field(gt=0, le=604_800)


class FallbackCommand(Command):
    """Put the fallback ladder on this rung; null makes it automatic again."""

    rung: str | None = Field(max_length=40)
