"""The facts behind a diagnosis: the figures of the last minute or so, as far as they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite, isnan
from typing import TypeVar

from headway_policies.engine import EngineState, StuckCause

#: Why a router dispatches nothing, in the words of its readiness: no server behind it can take a request.
NO_INSTANCE = "no instance is healthy"


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """The facts of a class; None if unknown.

    ``error_share`` is the share of its requests that ended without an answer, apart from those that clients cancelled
    and those that were invalid; ``ended`` of them ended in all, None where they were not counted. ``refused_share`` was
    refused for the load or ran out of time in the queue, and ``causes`` has the failed ones of each cause, by its
    words. An objective or time-out is infinite where the class has none, None where the preset is not known.
    ``reserved_seats`` are free ones that less urgent classes do not get. ``overloaded``: its queue stands, so that
    waits are cut. ``idle``: none of its requests has come lately, waits or runs.
    """

    name: str
    ttft_p95_s: float | None = None
    inter_token_p95_s: float | None = None
    error_share: float | None = None
    ttft_slo_s: float | None = None
    first_token_timeout_s: float | None = None
    inter_token_slo_s: float | None = None
    overloaded: bool = False
    idle: bool = False
    ended: float | None = None
    refused_share: float | None = None
    causes: Mapping[str, float] = field(default_factory=dict)
    reserved_seats: float = 0.0


@dataclass(frozen=True, slots=True)
class Forecasted:
    """The forecast of a preset for the recent traffic: the share of the requests that it would complete.

    ``keeps_objectives``: by their p95 its first tokens and times between tokens would keep the objectives of the preset
    in force. Its own would be no measure: long ones are easy to keep.
    """

    name: str
    seats: int
    completed_ratio: float
    keeps_objectives: bool = False
    ttft_p95_s: float | None = None
    inter_token_p95_s: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a server; None if unknown.

    ``seats_taken``, ``limit`` and ``queued`` are means of the last half minute, on which the rules rest; those with
    ``_now`` are of this moment, None where only the others are known. ``longest_wait_s`` is the longest wait of the
    half minute.

    ``stopped`` says why no request is dispatched, empty while they are, and ``planned`` that it was to be so: a
    warm-up, a recycle, a shutdown. ``replaceable``: the server can replace its engine, and does so with a silent one
    where it ``restarts_hung``. ``capped``: fewer seats are open than the limit allows, for the memory, after a restart
    or while an instance is away. ``used_while_waiting`` is the share of the seats that was taken whenever requests
    waited, None where hardly any did; ``window_s`` is how long a request may wait for its batch by itself.
    ``adaptive``: the limit follows the engine; ``limit_reason`` is a key of ``headway_policies.limits.WHYS``;
    ``limit_set``: an operator keeps it below what the preset has;
    ``reserved_seats`` are those that are free. ``doubling_gain`` is how many more tokens a second twice the
    seats would give, as a share of the present ones. ``machine_busy`` is the share of the machine's processors that is
    in use, ``own_busy`` the share that this server and its engine use. ``compiling_s`` is the age of a grammar that the
    engine has been compiling for too long, 0 where none is; ``stuck`` why it has served nothing for ``stuck_s``
    although it steps.

    ``prompt_share`` is the share of the engine's time that goes to prompts, and ``longest_prompt_s`` the time of the
    most of them that one step has computed. ``shapes_steps``: the step policy bounds that; False where it might.
    ``longest_held_s`` is how long a prompt had been there while it was held by it, 0 where none was.

    Of the error share, ``failed_share`` failed in the engine, ``invalid_share`` were invalid, ``expired_share`` ran out
    of time while they ran, and ``refused_share`` was refused for the load or ran out of time in the queue; ``ended`` is
    the number of requests that these are shares of. ``causes`` has the failed requests of each cause, by its words, in
    any one unit. Of the requests that ``arrived`` in the last minutes, ``lowered`` counts those that asked for a class
    above the rights of their key, by that class. ``rung`` is a word of the fallback ladder, ``rung_set`` whether an
    operator put it there. ``forecasts`` are those of other presets, ``forecast`` the one of the preset in force.
    """

    engine: EngineState | None = None
    stopped: str = ""
    planned: bool = False
    replaceable: bool | None = None
    restarts_hung: bool | None = None
    preset: str = ""
    strategy: str = ""
    adaptive: bool | None = None
    seats_taken: float | None = None
    seats_now: int | None = None
    limit: float | None = None
    limit_now: int | None = None
    ceiling: float | None = None
    limit_reason: str = ""
    limit_set: bool = False
    reserved_seats: float = 0.0
    capped: bool = False
    queued: float | None = None
    queued_now: int | None = None
    oldest_wait_s: float | None = None
    longest_wait_s: float | None = None
    used_while_waiting: float | None = None
    window_s: float = 0.0
    mean_batch: float | None = None
    kv_ratio: float | None = None
    preemptions: float | None = None
    doubling_gain: float | None = None
    machine_busy: float | None = None
    own_busy: float | None = None
    compiling_s: float = 0.0
    shapes_steps: bool | None = None
    prompt_share: float | None = None
    longest_prompt_s: float = 0.0
    longest_held_s: float = 0.0
    stuck: StuckCause | None = None
    stuck_s: float = 0.0
    ended: float | None = None
    error_share: float | None = None
    failed_share: float | None = None
    invalid_share: float | None = None
    expired_share: float | None = None
    refused_share: float | None = None
    causes: Mapping[str, float] = field(default_factory=dict)
    arrived: int = 0
    lowered: Mapping[str, int] = field(default_factory=dict)
    rung: str = ""
    rung_set: bool = False
    ttft_p95_s: float | None = None
    classes: tuple[ClassFacts, ...] = ()
    forecast: Forecasted | None = None
    forecasts: tuple[Forecasted, ...] = ()

    @property
    def fault_share(self) -> float | None:
        """The share of the requests that ended without an answer although they were valid."""
        invalid = self.invalid_share or 0.0
        return None if self.error_share is None else max(0.0, self.error_share - invalid)

    def measured(self) -> Facts:
        """The same, with what is no finite number taken for not known; an infinite objective is one that is not
        stated, and an infinite window one that ends only with a full batch, which are known."""
        return replace(_finite(self, _UNBOUNDED), classes=tuple(_finite(row, _BOUNDS) for row in self.classes))


_BOUNDS = frozenset({"ttft_slo_s", "first_token_timeout_s", "inter_token_slo_s"})
_UNBOUNDED = frozenset({"window_s"})
_NUMBERS = ("reserved_seats", "window_s", "compiling_s", "longest_prompt_s", "longest_held_s", "stuck_s")  # 0: unknown
_Facts = TypeVar("_Facts", Facts, ClassFacts)


def _finite(facts: _Facts, bounds: frozenset[str] = frozenset()) -> _Facts:
    wrong: dict[str, float | None] = {}
    for figure in fields(facts):
        value = getattr(facts, figure.name)
        if isinstance(value, float) and (isnan(value) if figure.name in bounds else not isfinite(value)):
            wrong[figure.name] = 0.0 if figure.name in _NUMBERS else None
    return replace(facts, **wrong)  # type: ignore[arg-type]  # each of them may be None
