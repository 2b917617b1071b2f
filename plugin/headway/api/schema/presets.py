"""Presets, their differences, switches and trials."""

from __future__ import annotations

from pydantic import Field

from headway.api.schema.base import Answer, PresetInForce, Setting


class PresetEntry(Answer):
    """A preset of the server; ``source`` is "bundled", "given" by the program, or its file."""

    name: str
    description: str
    source: str
    settings: dict[str, Setting]
    warnings: list[str] = Field(default=[], description="Settings that probably do not do what their author expects.")


class PresetList(Answer):
    """All presets of the server, and the one in force."""

    current: PresetInForce
    presets: list[PresetEntry]


class CurrentPreset(PresetInForce):
    """The preset in force with its settings."""

    description: str
    settings: dict[str, Setting]


class SettingChange(Answer):
    """A setting that differs between two presets; null where a preset does not have it."""

    setting: str
    before: Setting | None
    after: Setting | None


class ServedFigures(Answer):
    """The results of a class of requests in a stretch of time; null where nothing was measured.

    Ratios are of the requests that ended. A request that waits for its first token counts with its age so far.
    """

    completed_ratio: float | None = None
    refused_ratio: float | None = None
    timed_out_ratio: float | None = None
    error_ratio: float | None = None
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    inter_token_p50_s: float | None = None
    inter_token_p95_s: float | None = None
    inter_token_p99_s: float | None = None
    tokens_per_s: float | None = None


class ServedByClass(Answer):
    """The figures of all requests, and of each class."""

    all: ServedFigures
    classes: dict[str, ServedFigures]


class EndedRequests(Answer):
    """The ended requests of a class by their end, without cancelled and invalid requests."""

    ended: int
    completed: int
    refused: int
    timed_out: int
    failed: int


class TrialCondition(Answer):
    """A condition of a trial: its text, the figure at the last look, and for how long it has been true."""

    text: str
    reading: float | None = None
    held_s: float = 0.0


class Trial(PresetInForce):
    """A preset on trial, or the last one that was: what it ends by, and what was seen before and during it."""

    back_to: str = Field(description="The preset that was in force before.")
    end: str | None = Field(default=None, description="null: the trial goes on; else kept, reverted or overtaken.")
    why: str = ""
    left_s: float | None = Field(default=None, description="Seconds until the trial ends by itself; null: ended.")
    revert_after_s: float | None = None
    conditions: list[TrialCondition] = Field(default=[])
    before: ServedByClass | None = Field(default=None, description="The last minute before the switch.")
    now: ServedByClass | None = Field(
        default=None,
        description="The last seconds, of requests that arrived since the switch; null: no request can run now.",
    )
    ended: dict[str, EndedRequests] = Field(default={}, description="Since the switch, by class.")


class TrialReport(Answer):
    """The trial that goes on, or the last one; null before the first."""

    trial: Trial | None = None


class Switched(PresetInForce):
    """The result of a switch. The revision is the old one where the preset was in force already."""

    previous: str
    changes: list[SettingChange]
    engine_limit_confirmed: bool = Field(default=True, description="Whether the engine has confirmed its new limit.")
    warnings: list[str] = Field(default=[], description="Settings that probably do not do what their author expects.")
    trial: Trial | None = Field(default=None, description="The trial that the switch began.")
