"""The statement: what limits a server, in a sentence or two with the load that it was seen under."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from headway_policies.diagnosis.bottleneck import Bottleneck
from headway_policies.diagnosis.facts import Facts
from headway_policies.diagnosis.rules import AT_LIMIT, BY_ENGINE, KV_FULL, lacking, used_ratio
from headway_policies.diagnosis.symptoms import refused_beside_seats, slow, slowed_by_prompts
from headway_policies.engine import STUCK_WORDS, EngineState
from headway_policies.limits import WHYS
from headway_policies.units import compact, duration, percent

_FAR_BELOW = 0.5
#: Fewer sequences on the mean are not too many for any engine.
_FEW_SEATS = 2.0


def statement(facts: Facts, found: Bottleneck) -> str:
    """The bottleneck in a sentence."""
    return _STATEMENTS[found](facts)


def _engine_down(facts: Facts) -> str:
    what = "The engine is gone" if facts.engine is EngineState.LOST else "The engine is being replaced"
    return f"{what}{_waiting(facts)}."


def _engine_stuck(facts: Facts) -> str:
    words = "" if facts.stuck is None else STUCK_WORDS[facts.stuck]
    return f"{words[:1].upper()}{words[1:]}, for {duration(facts.stuck_s)}{_waiting(facts)}."


def _stopped(facts: Facts) -> str:
    why = facts.stopped or ("the fallback ladder is on its rung pause" if facts.rung == "pause" else "no seat is open")
    return f"No request is dispatched: {why}{_waiting(facts)}."


def _memory(facts: Facts) -> str:
    if facts.kv_ratio is not None and facts.kv_ratio >= KV_FULL:
        what = f"the KV cache is {percent(facts.kv_ratio)} full"
    elif facts.preemptions:
        what = f"the engine preempted {compact(facts.preemptions)} sequences"
    else:
        what = WHYS[facts.limit_reason]
    return f"Limited by memory: {what}{_waiting(facts)}. More seats will not help."


def _engine_speed(facts: Facts) -> str:
    if names := refused_beside_seats(facts):
        why = f"seats are kept free for {' and '.join(names)}, whose first tokens would come too late"
    elif facts.limit_reason in BY_ENGINE:
        why = f"limit: {WHYS[facts.limit_reason]}"
    elif any(map(slow, facts.classes)):
        why = "the time between tokens is over its objective already"
    else:
        gain = facts.doubling_gain or 0.0
        more = f"about {percent(gain)} more" if gain >= 0.01 else "no more"
        why = f"twice as many would give {more} tokens a second"
    return f"Limited by the engine: {_taken(facts)} More seats will not help ({why})."


def _reserved_seats(facts: Facts) -> str:
    reserved = compact(max(1, round(facts.reserved_seats)))
    return f"Requests wait although seats are free: {_partly_free(facts)} {reserved} are reserved for urgent classes."


def _request_size(facts: Facts) -> str:
    batch = "" if facts.strategy else "for their batch, or "
    return f"Requests wait although seats are free, {batch}for more seats or tokens at once: {_partly_free(facts)}"


def _well(facts: Facts) -> str:
    """There is room; how much depends on the seats alone."""
    used = max(used_ratio(facts), used_ratio(replace(facts, seats_taken=facts.seats_now, limit=facts.limit_now)))
    busy_now = facts.seats_now or facts.queued_now
    if not facts.seats_taken and not busy_now and all(row.idle for row in facts.classes):
        room = "Idle"
    elif used >= AT_LIMIT:
        room = "At capacity, without delay"
    else:
        room = "Far below capacity" if used < _FAR_BELOW else "Below capacity"
    return f"{room}: {_load(facts)}{_first_tokens(facts)}"


def _unknown(facts: Facts) -> str:
    if facts.seats_taken is None or facts.limit is None:
        return "Seats taken and limit are not measured here."
    unknown = lacking(facts)
    return f"{_load(facts)}{_first_tokens(facts)}" + (f" Not known: {'; '.join(unknown)}." if unknown else "")


def _load(facts: Facts) -> str:
    """Seats and queue in whole numbers: those of this moment, where they are known."""
    taken, limit = _whole(facts.seats_now, facts.seats_taken), _whole(facts.limit_now, facts.limit)
    waiting = facts.queued if facts.queued_now is None else facts.queued_now
    idle = ", no request waits" if waiting == 0 and (facts.queued or 0.0) < 1 else ""
    return f"{compact(taken)} of {compact(limit)} seats taken{_waiting(facts) or idle}."


def _partly_free(facts: Facts) -> str:
    """The load of a server that has free seats most of the time: the mean, where none is free at this moment."""
    if facts.seats_now is None or facts.seats_now < (facts.limit_now or 0):
        return _load(facts)
    return _mean_load(facts)


def _taken(facts: Facts) -> str:
    """The load of a server whose seats were taken: the mean, where most of them are free at this moment."""
    ended = facts.seats_now is not None and facts.seats_now < (facts.seats_taken or 0.0) / 2
    return _mean_load(facts) if ended else _load(facts)


def _long_steps(facts: Facts) -> str:
    """Tokens come too slowly: the requests that made them so may have ended since."""
    load = _taken(facts)
    if slowed_by_prompts(facts):
        return f"Long prompts make steps long: {load}"
    if (facts.seats_taken or 0.0) < _FEW_SEATS:
        return f"Tokens come more slowly than their objective allows, although few requests run at once: {load}"
    return f"Too many requests run at once for their objective: {load}"


def _mean_load(facts: Facts) -> str:
    mean = _load(replace(facts, seats_now=None, limit_now=None))
    return mean.replace("seats taken", "seats taken on the mean of half a minute", 1)


def _whole(now: int | None, mean: float | None) -> int:
    return round(mean or 0.0) if now is None else now


def _first_tokens(facts: Facts) -> str:
    return f" First tokens within {duration(facts.ttft_p95_s)} (p95)." if facts.ttft_p95_s is not None else ""


def _waiting(facts: Facts) -> str:
    waiting = _whole(facts.queued_now, facts.queued if (facts.queued or 0.0) >= 1 else None)
    if not waiting:
        return ""
    oldest = f", the oldest for {duration(facts.oldest_wait_s)}" if facts.oldest_wait_s else ""
    return f", {compact(waiting)} waiting{oldest}"


_STATEMENTS: Mapping[Bottleneck, Callable[[Facts], str]] = {
    Bottleneck.ENGINE_DOWN: _engine_down,
    Bottleneck.ENGINE_SILENT: lambda facts: f"The engine does not respond{_waiting(facts)}.",
    Bottleneck.ENGINE_STUCK: _engine_stuck,
    Bottleneck.STOPPED: _stopped,
    Bottleneck.MEMORY: _memory,
    Bottleneck.HOST: lambda facts: (
        f"Other work on the machine takes its processors: {round(100 * (facts.machine_busy or 0.0))} % of them are in "
        f"use, {round(100 * (facts.own_busy or 0.0))} % by this server. {_load(facts)}"
    ),
    Bottleneck.ENGINE_SPEED: _engine_speed,
    Bottleneck.SEATS: lambda facts: (
        f"Limited by the seats {'that an operator has set' if facts.limit_set else 'of this preset'}: {_taken(facts)}"
    ),
    Bottleneck.CEILING: lambda facts: f"Limited by the seats that this engine was started with: {_taken(facts)}",
    Bottleneck.CAPPED_SEATS: lambda facts: (
        f"Fewer seats are open than the preset has, for the memory, a restart or a lost instance: {_taken(facts)}"
    ),
    Bottleneck.BATCH_FORMATION: lambda facts: (
        f"Requests wait for a batch ({facts.strategy} batching) although seats are free: {_partly_free(facts)}"
    ),
    Bottleneck.RESERVED_SEATS: _reserved_seats,
    Bottleneck.REQUEST_SIZE: _request_size,
    Bottleneck.ADAPTERS: lambda facts: (
        f"Requests wait for a LoRA adapter although seats are free: {_partly_free(facts)}"
    ),
    Bottleneck.BURSTS: lambda facts: (
        f"Requests arrive in bursts, while on the mean seats are free: {_partly_free(facts)}"
    ),
    Bottleneck.LONG_STEPS: _long_steps,
    Bottleneck.FIRST_TOKENS: lambda facts: (
        f"No request waits for a seat, so their prompts take long to compute: {_load(facts)}"
    ),
    Bottleneck.ENGINE_ERRORS: lambda facts: (
        f"{percent(facts.failed_share or 0.0)} of requests fail in the engine. {_load(facts)}"
    ),
    Bottleneck.TIME_OUTS: lambda facts: (
        f"{percent(facts.expired_share or 0.0)} of requests run out of time while they run. {_load(facts)}"
    ),
    Bottleneck.INVALID_REQUESTS: lambda facts: (
        f"{percent(facts.invalid_share or 0.0)} of requests are invalid: the clients' mistake. {_load(facts)}"
    ),
    Bottleneck.FALLBACK: lambda facts: f"The fallback ladder was put on {facts.rung} by a command. {_load(facts)}",
    Bottleneck.NONE: _well,
    Bottleneck.UNKNOWN: _unknown,
}
