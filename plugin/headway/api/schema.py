"""What does the admin API answer? One model for each answer; fields of a newer server are kept, not refused."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

Setting = str | int | float | bool | list[str] | list[int]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class PresetInForce(_Answer):
    """A preset's name and its revision, which grows by one with every switch."""

    name: str
    revision: int


class LimitNow(_Answer):
    """The seats allowed now, and the most any preset may ask for."""

    live: int
    ceiling: int


class ClassNow(_Answer):
    """One class: what waits, what runs, and how everything so far ended.

    ``priority`` is None for a class the preset in force does not have.
    """

    name: str
    priority: int | None
    queued: int
    oldest_wait_s: float
    in_flight: int
    arrived: int
    outcomes: dict[str, int]


class Status(_Answer):
    """``GET /headway/v1/status``."""

    version: str
    model: str
    ready: bool
    reasons: list[str]
    state: str
    uptime_s: float
    preset: PresetInForce
    limit: LimitNow
    seats_taken: int
    queued: int
    in_flight: int
    classes: list[ClassNow]


class PresetEntry(_Answer):
    """One preset a server knows; ``source`` is "bundled" or its file."""

    name: str
    description: str
    source: str
    settings: dict[str, Setting]


class PresetList(_Answer):
    """``GET /headway/v1/presets``."""

    current: PresetInForce
    presets: list[PresetEntry]


class CurrentPreset(_Answer):
    """``GET /headway/v1/preset``."""

    name: str
    revision: int
    description: str
    settings: dict[str, Setting]


class SettingChange(_Answer):
    """One setting a switch changed; None where one of the presets does not have it."""

    setting: str
    before: Setting | None
    after: Setting | None


class Switched(_Answer):
    """``PUT /headway/v1/preset``."""

    name: str
    revision: int
    previous: str
    changes: list[SettingChange]


class RecycleAccepted(_Answer):
    """``POST /headway/v1/recycle``; ``running`` is how many seats are still taken."""

    accepted: bool
    running: int


class OtherModel(_Answer):
    """The model that may answer in place of the server's own."""

    model: str
    breaker: str
    in_flight: int


class FallbackMove(_Answer):
    """One step of the fallback ladder."""

    time: str
    before: str
    after: str
    trigger: str


class FallbackNow(_Answer):
    """``GET`` and ``PUT /headway/v1/fallback``; ``ordered`` is None while the ladder moves by itself."""

    rung: str
    ordered: str | None
    trigger: str | None
    in_force: list[str]
    usable: list[str]
    upstream: OtherModel | None
    moves: list[FallbackMove]
