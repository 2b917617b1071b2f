"""What does the server say of itself beyond its numbers: engine, warm-up, ladder, limit?

Pure: the bodies of the admin API's answers in, values out. What an answer lacks, or has in another shape, is left at
its default, so that a server of another version leaves a page poorer but whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Engine:
    """How the engine stands. ``trying`` says what is done to get another one; ``suspects`` still have to run alone."""

    standing: str = ""
    trying: str = ""
    tries: int = 0
    most_tries: int = 0
    suspects: int = 0


@dataclass(frozen=True, slots=True)
class Warmup:
    """How the warm-up goes: pending, running, done, skipped or failed. ``stages`` has the seconds of every round."""

    state: str = ""
    reason: str = ""
    attempt: int = 0
    batch_size: int | None = None
    stages: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """One step of the fallback ladder."""

    time: str
    before: str
    after: str
    trigger: str


@dataclass(frozen=True, slots=True)
class Ladder:
    """Where the fallback ladder stands, which rung was ordered if any, and its last moves, newest first."""

    rung: str = ""
    ordered: str = ""
    trigger: str = ""
    in_force: tuple[str, ...] = ()
    usable: tuple[str, ...] = ()
    upstream: str = ""
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """The whole. ``known`` is False where the server did not tell: then there is at most why it is not ready."""

    known: bool = False
    reasons: tuple[str, ...] = ()
    seats_taken: int = 0
    queued: int = 0
    limit_why: str = ""
    order_failed: str = ""
    recycling: bool = False
    longest_gc_pause_s: float | None = None
    engine: Engine = field(default_factory=Engine)
    warmup: Warmup = field(default_factory=Warmup)
    ladder: Ladder = field(default_factory=Ladder)
    first_token_timeout_s: Mapping[str, float] = field(default_factory=dict)


def read_status(body: Mapping[str, Any], ladder: Ladder, preset: Mapping[str, Any] | None = None) -> Status:
    """The answer of ``GET /headway/v1/status``, with the ladder and the preset that were asked for beside it."""
    memory = _part(body, "memory")
    return Status(
        known=True,
        reasons=_words(body.get("reasons")),
        seats_taken=_whole(body.get("seats_taken")),
        queued=_whole(body.get("queued")),
        limit_why=_word(_part(body, "limit").get("why")),
        order_failed=_word(_part(body, "ordering").get("failed")),
        recycling=memory.get("recycling") is True,
        longest_gc_pause_s=_seconds(memory.get("longest_gc_pause_s")),
        engine=_engine(_part(body, "engine")),
        warmup=_warmup(_part(body, "warmup")),
        ladder=ladder,
        first_token_timeout_s=read_first_token_timeouts(preset or {}),
    )


def read_ladder(body: Mapping[str, Any]) -> Ladder:
    """The answer of ``GET`` or ``PUT /headway/v1/fallback``."""
    upstream = _part(body, "upstream")
    moves = [one for one in _list(body.get("moves")) if isinstance(one, Mapping)]
    return Ladder(
        rung=_word(body.get("rung")),
        ordered=_word(body.get("ordered")),
        trigger=_word(body.get("trigger")),
        in_force=_words(body.get("in_force")),
        usable=_words(body.get("usable")),
        upstream=_word(upstream.get("model")),
        moves=tuple(Move(*(_word(one.get(key)) for key in ("time", "before", "after", "trigger"))) for one in moves),
    )


def read_first_token_timeouts(body: Mapping[str, Any]) -> dict[str, float]:
    """The first-token time-out of each class, in seconds, from the answer of ``GET /headway/v1/preset``.

    Infinite for a class that has none; a class whose time-out is no positive number is left out.
    """
    settings = _part(body, "settings")
    keys = [key.split(".") for key in settings if isinstance(key, str)]
    names = dict.fromkeys(parts[1] for parts in keys if len(parts) == 3 and parts[0] == "classes")
    found = {name: _seconds(settings.get(f"classes.{name}.first_token_timeout_s", math.inf)) for name in names}
    return {name: timeout_s for name, timeout_s in found.items() if timeout_s is not None and timeout_s > 0}


def _engine(body: Mapping[str, Any]) -> Engine:
    return Engine(
        standing=_word(body.get("standing")),
        trying=_word(body.get("trying")),
        tries=_whole(body.get("tries")),
        most_tries=_whole(body.get("most_tries")),
        suspects=_whole(body.get("suspects")),
    )


def _warmup(body: Mapping[str, Any]) -> Warmup:
    rounds = {
        stage: tuple(took_s for one in _list(listed) if (took_s := _seconds(one)) is not None)
        for stage, listed in _part(body, "stages").items()
    }
    return Warmup(
        state=_word(body.get("state")),
        reason=_word(body.get("reason")),
        attempt=_whole(body.get("attempt")),
        batch_size=_whole(body.get("batch_size")) or None,
        stages={stage: listed for stage, listed in rounds.items() if listed},
        refused=_words(body.get("refused")),
        settled=body.get("settled") is True,
    )


def _part(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = body.get(key)
    return found if isinstance(found, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _words(value: Any) -> tuple[str, ...]:
    return tuple(one for one in _list(value) if isinstance(one, str))


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
