"""The number of seats that are open.

As many as the limit policy says, no more than the engine can give, and of those a share. The limit is right for a
healthy engine. Less is open while its memory is short, after it died for lack of memory, and for a while after a
warm-up, when seats open one after another. The least of these shares counts, and a bound in seats, which is that of the
instances behind a router; one seat is always open.

The limit in front of several instances is that of all of them. The instances that are there have their share of it,
beside the seats taken elsewhere: an instance that is gone finishes its requests. The taken seats of the present
instances count as many times more, so that the fit of the engine is the same, however many there are. Of several fronts
before them each has its share of that, rounded down, so that all of them together do not go beyond the limit; the
requests of the others are in the load that is observed.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from math import ceil, floor, inf, sqrt

from headway_policies.engine import Ramp
from headway_policies.limits import (
    MEMORY_WHYS,
    EngineFit,
    FixedLimit,
    Governor,
    IntervalMeter,
    Learnt,
    Limit,
    LimitFailure,
    LimitSettings,
    Load,
    PrefillPacer,
    Signals,
    make_limit,
)
from headway_policies.prediction import SizeStats
from headway_policies.preset import Preset
from headway_policies.request import Ticket


class CapReason(StrEnum):
    """The reason why only a share of the seats is open."""

    RECOVERY = "recovery"
    MEMORY = "memory"


class Opening:
    """The shares that are open, the bound, and the ramp that is being climbed."""

    def __init__(self) -> None:
        self.bound(None, 1.0, 0, 1.0)
        self._ratios = dict.fromkeys(CapReason, 1.0)
        self._opened_s = 0.0
        self.moving = False  # whether time alone opens seats

    def bound(self, most: int | None, present: float, elsewhere: int, front: float) -> None:
        """No more seats than ``most``, under any preset. ``present`` is the share of the instances that are there;
        ``elsewhere`` seats are taken at those that are not; ``front`` is this front's share of what is there.
        """
        self.most, self.present, self.elsewhere, self.front = most, present, elsewhere, front

    def cap(self, reason: CapReason, ratio: float) -> None:
        """Cap the limit at this share, for this reason."""
        self._ratios[reason] = ratio

    def begin(self, now_s: float) -> None:
        """The engine is warm: from now on seats open one after another."""
        self._opened_s, self.moving = now_s, True

    def seats(self, limit: int, ramp: Ramp, now_s: float) -> int:
        """The seats that are open, of ``limit``."""
        held = self._held(limit)
        if self.moving and now_s >= self._opened_s + ramp.ramp_s:
            self.moving = False
        if not self.moving:
            return held
        return ramp.seats(held, self._opened_s, now_s)

    @property
    def held(self) -> bool:
        """Whether only a share is open, for some time or for a reason."""
        return self.moving or min(self._ratios.values()) < 1

    def due_s(self, limit: int, ramp: Ramp, now_s: float) -> float | None:
        """The time of the next seat; None when time opens none."""
        if not self.moving:
            return None
        return ramp.due_s(self._held(limit), self._opened_s, now_s)

    def _held(self, limit: int) -> int:
        """The seats that are open once the ramp is climbed."""
        share = int(limit * min(self._ratios.values()))
        share = ceil(round(share * self.present, 6))
        share = floor(round(share * self.front, 6)) + self.elsewhere
        return max(1, share if self.most is None else min(share, self.most))


class Capacity:
    """The seats of one engine; ``ceiling`` is the most that engine can give, None where that is not known.

    ``limit`` is their number as it was last weighed, ``most_seats`` what the most urgent class may reach beyond it. The
    limit may be another one a moment later when the limit ``adapts``, or the ``opening`` is moving. Under every limit
    the steps are measured here, and the ``engine`` fitted. ``pacer`` spreads the prompts, None where the preset does
    not pace them; ``paced`` is its last answer on a ticket that was to go to a free seat: True where that had to wait.
    ``gpu_busy_ratio`` is the last reading of the GPU, None without one.
    """

    def __init__(self, preset: Preset, ceiling: int | None) -> None:
        self.ceiling = ceiling
        self.opening = Opening()
        self.engine = EngineFit()
        self.pacer: PrefillPacer | None = None
        self.gpu_busy_ratio: float | None = None
        self._limited, self._next_seats = False, 1
        self._stepped_s = -inf
        self._limit = make_limit(_settings(preset), preset.batching.seats, ceiling, self.engine)
        self._put(preset, self._limit)
        self.weigh(0.0)

    def limit_for(self, preset: Preset) -> Limit:
        """The limit a preset describes; the one there is, with all it has learnt, where that part does not change."""
        settings, before = _settings(preset), self._preset
        if (_settings(before), before.batching.seats) == (settings, preset.batching.seats):
            return self._limit
        return make_limit(settings, preset.batching.seats, self.ceiling, self.engine)

    def adopt(self, preset: Preset, limit: Limit, now_s: float) -> bool:
        """Put a preset in force, with the limit that belongs to it. Whether that is another limit than before."""
        other = limit is not self._limit
        if other:
            self._put(preset, limit)
        self._preset, self._ramp, self.paced = preset, Ramp(preset.warmup.ramp_s), False
        self.weigh(now_s)
        return other

    @property
    def why(self) -> str:
        """The reason for the limit, in one word of ``governor.WHYS``."""
        return self._limit.why

    @property
    def failure(self) -> LimitFailure | None:
        """The failure of the limit policy since it was put in force, though it may have recovered."""
        return self._limit.failure if isinstance(self._limit, Governor) else None

    def weigh(self, now_s: float) -> None:
        """Set the seats that are open now, and the most that a class may reach beyond them: no more than these where
        their number is fixed, where the engine's memory bounds it, and where less than the limit is open.
        """
        settings, opening = self._preset.limit, self.opening
        self.limit = opening.seats(self.whole(now_s), self._ramp, now_s)
        self.most_seats: float = self.limit
        self._fixed = settings.policy == "fixed" or settings.shadow
        if not self._fixed and not opening.held and self.why not in MEMORY_WHYS:
            bounds = (settings.max_seats, self.ceiling, opening.most)
            self.most_seats = max(self.limit, min((bound for bound in bounds if bound is not None), default=inf))

    def lent(self, kept: int) -> int:
        """The seats that are lent to tenants that were served little, beyond what their class may take, where the limit
        keeps this many for the classes above: half the root of the limit. Of one that cannot be passed, half of what is
        kept at most; of a fixed one, none.
        """
        root = round(sqrt(self.limit) / 2)
        return root if self.limit < self.most_seats else 0 if self._fixed else min(root, kept // 2)

    def proposed(self, now_s: float) -> int:
        """The limit that the policy would set without the shadow mode."""
        return self._capped(self._limit.proposed(now_s))

    def stale_s(self, now_s: float) -> float | None:
        """The time when the limit becomes the preset's number, or the pace opens, unless the engine reports; None: it
        has come already, or neither does.
        """
        limit_s = self._limit.stale_s if isinstance(self._limit, Governor) else inf
        pace_s = self.pacer.stale_s if self.paced and self.pacer is not None else inf
        return min((at_s for at_s in (limit_s, pace_s) if now_s < at_s < inf), default=None)

    def due_s(self, now_s: float) -> float | None:
        """The time when time alone opens the next seat; None when it will not."""
        return self.opening.due_s(self.whole(now_s), self._ramp, now_s)

    def paces(self, taken: int, now_s: float) -> bool:
        """Whether the pace lets no prompt be computed now beside those that run, which take so many seats."""
        self.paced = self.pacer is not None and not self.pacer.open(taken, now_s)
        return self.paced

    def passes(self, ticket: Ticket) -> bool:
        """Whether the pace lets a ticket go for its short prompt."""
        return self.pacer is not None and self.pacer.open_to_short(ticket.seats * ticket.prompt_tokens)

    def lacked(self, seats: int = 1) -> None:
        """A ticket lacked so many seats together, or the pace for one."""
        self._limited = True
        if seats > self._next_seats:
            self._next_seats = seats

    def observe(
        self, load: Load, seats_taken: int, queued: int, sizes: SizeStats, spread_ratio: float, now_s: float
    ) -> None:
        """The engine made a step. The seats that tickets lack are counted anew from now on."""
        unloaded = self.engine.unloaded
        signals = Signals(
            load,
            seats_taken=seats_taken,
            queued=queued,
            limited=self._limited,
            next_seats=self._next_seats,
            prompt_tokens_mean=sizes.prompt_tokens,
            output_tokens_mean=sizes.output_tokens,
            sequence_tokens_std=sizes.deviation_tokens,
            pace_spread_ratio=spread_ratio,
            unloaded_token_s=None if unloaded is None else unloaded.token_s,
        )
        self._limited, self._next_seats, self._stepped_s = False, 1, now_s
        self.gpu_busy_ratio = load.gpu_busy_ratio
        if self.opening.present < 1 or self.opening.elsewhere or self.opening.front < 1:
            signals = _of_all(signals, self.opening)
        seen = self._meter.add(signals, now_s)
        if seen is not None:
            self.engine.learn(seen)
        self._limit.decide(signals, seen, now_s)
        if self.pacer is not None:
            self.pacer.observe(signals.load, now_s)
        self.engine.step(signals.load)

    def learnt(self) -> Learnt | None:
        """The figures that the limit has learnt, for another process."""
        return self._limit.learnt()

    def recall(self, learnt: Learnt) -> None:
        """Start from the learnt figures of another process."""
        self._limit.recall(learnt)

    def whole(self, now_s: float) -> int:
        """The limit in front of all instances, of all fronts together."""
        return self._capped(self._limit.seats(now_s))

    def _put(self, preset: Preset, limit: Limit) -> None:
        """Begin with another limit: its steps are measured anew, and paced by its own settings."""
        settings = _settings(preset)
        self._preset, self._limit, self._ramp = preset, limit, Ramp(preset.warmup.ramp_s)
        self._meter = IntervalMeter(settings.stale_after_s)
        self.pacer = PrefillPacer(settings, self.engine, self._stepped_s) if settings.paces else None
        self.paced, self.adapts = False, not isinstance(limit, FixedLimit)

    def _capped(self, seats: int) -> int:
        return seats if self.ceiling is None else max(1, min(seats, self.ceiling))


def _of_all(signals: Signals, opening: Opening) -> Signals:
    """The number that all instances would run if each ran as many as the present instances."""
    load, kv_tokens, present = signals.load, signals.load.kv_capacity_tokens, opening.present or 1.0
    there = max(0, signals.seats_taken - opening.elsewhere)
    ours = present * (opening.front or 1.0)
    load = replace(
        load,
        running=round(load.running / present),
        prefill_tokens=round(load.prefill_tokens / ours),
        kv_capacity_tokens=None if kv_tokens is None else round(kv_tokens / present),
    )
    return replace(signals, load=load, seats_taken=round(there / ours))


def _settings(preset: Preset) -> LimitSettings:
    """The settings of its limit: the prompts of a batch are computed together, so there is nothing to pace."""
    settings = preset.limit
    if preset.batching.strategy == "continuous" or not settings.paces:
        return settings
    return settings.model_copy(update={"pace_prompts": False})
