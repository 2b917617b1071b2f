"""The rules: the one thing that limits a server, and how bad it is.

The first rule that holds names the bottleneck, from the engine outwards: a dead engine before a full cache, a full
cache before full seats. The severity follows from the symptoms and from whether more arrives than is served.
"""

from __future__ import annotations

from math import inf

from headway_policies.diagnosis.bottleneck import Bottleneck, Severity
from headway_policies.diagnosis.facts import ClassFacts, Facts
from headway_policies.diagnosis.symptoms import (
    MAX_ERROR_SHARE,
    bound_s,
    errs,
    host_busy,
    late,
    refused,
    refused_beside_seats,
    slow,
)
from headway_policies.engine import EngineState

KV_FULL = 0.95
KV_NEAR = 0.9
AT_LIMIT = 0.9
#: Twice the seats must give so many more tokens a second, as a share, to be worth their longer steps.
WORTHWHILE_GAIN = 0.2
#: From this part of an objective on it is nearly missed.
NEAR_OBJECTIVE = 0.8
#: Reasons of a limit that an adaptive policy keeps down because the engine could not serve more in time.
BY_ENGINE = frozenset({"policy", "slo", "pacing", "settling", "saturated", "min_seats"})
#: Bottlenecks that more seats would widen.
BY_SEATS = frozenset({Bottleneck.SEATS, Bottleneck.CEILING, Bottleneck.CAPPED_SEATS})
_BY_MEMORY = frozenset({"kv", "preemption"})
#: Full whenever requests wait, and yet below this part on the mean: they come in bursts.
_MOSTLY_FREE = 0.75
#: A batch may take so many windows: one before it, and its row.
_WINDOWS = 2.0
_MANY_PREEMPTIONS = 3
#: Of a first token's time: waits that are shorter than this part of it did not make it late.
_WAITED_PART = 0.25
_NORMAL = ("", "normal")
_PAUSED = "pause"  # the rung on which all requests wait


def bottleneck(facts: Facts) -> Bottleneck:
    """The first rule that holds."""
    if stopped := _not_served(facts):
        return stopped
    if facts.failed_share is not None and facts.failed_share > MAX_ERROR_SHARE:
        return Bottleneck.ENGINE_ERRORS
    if facts.seats_taken is None or facts.limit is None:
        return Bottleneck.UNKNOWN
    if facts.limit <= 0:
        return Bottleneck.STOPPED
    if _waits(facts) or refuses(facts):
        return _pressed(facts)
    return _unpressed(facts)


def _not_served(facts: Facts) -> Bottleneck | None:
    match facts.engine:
        case EngineState.RESTARTING | EngineState.LOST:
            return Bottleneck.ENGINE_DOWN
        case EngineState.SILENT:
            return Bottleneck.ENGINE_SILENT
        case _ if facts.stuck is not None:
            return Bottleneck.ENGINE_STUCK
        case _:
            return Bottleneck.STOPPED if facts.stopped or facts.rung == _PAUSED else None


def _pressed(facts: Facts) -> Bottleneck:
    """The cause that delays waiting requests, or refuses some for the load.

    On a machine that is busy with other work it is the seats only where the engine, as slow as it is there, keeps its
    objectives and would give more tokens with more of them.
    """
    if _memory_full(facts):
        return Bottleneck.MEMORY
    beside_seats = refused_beside_seats(facts)
    taken = max(used_ratio(facts), facts.used_while_waiting or 0.0) >= AT_LIMIT and not beside_seats
    full = _full(facts) if taken else None
    if host_busy(facts) and not (full in BY_SEATS and (facts.doubling_gain or 0.0) >= WORTHWHILE_GAIN):
        return Bottleneck.HOST
    if beside_seats:
        return Bottleneck.ENGINE_SPEED
    if full is not None:
        return full
    if facts.rung_set and facts.rung not in _NORMAL:
        return Bottleneck.FALLBACK
    if facts.limit_reason == "pacing":
        return Bottleneck.ENGINE_SPEED
    if facts.limit_reason == "adapter":
        return Bottleneck.ADAPTERS
    if _gathers(facts):
        return Bottleneck.BATCH_FORMATION
    if facts.reserved_seats >= 1 and (facts.seats_taken or 0.0) + facts.reserved_seats >= AT_LIMIT * (
        facts.limit or 0.0
    ):
        return Bottleneck.RESERVED_SEATS
    return Bottleneck.REQUEST_SIZE if _waits(facts) else Bottleneck.BURSTS


def _full(facts: Facts) -> Bottleneck:
    """All seats are taken, at least whenever requests wait."""
    if facts.used_while_waiting is not None and used_ratio(facts) < _MOSTLY_FREE:
        return Bottleneck.BURSTS
    if facts.capped:
        return Bottleneck.CAPPED_SEATS
    if facts.limit_reason in BY_ENGINE or any(map(slow, facts.classes)):
        return Bottleneck.ENGINE_SPEED
    if facts.doubling_gain is not None and facts.doubling_gain < WORTHWHILE_GAIN:
        return Bottleneck.ENGINE_SPEED
    at_ceiling = facts.ceiling is not None and (facts.limit or 0.0) >= facts.ceiling
    return Bottleneck.CEILING if at_ceiling else Bottleneck.SEATS


def _unpressed(facts: Facts) -> Bottleneck:
    """The fault of a server where no request waits."""
    if facts.kv_ratio is not None and facts.kv_ratio >= KV_FULL:
        return Bottleneck.MEMORY
    if facts.rung_set and facts.rung not in _NORMAL:
        return Bottleneck.FALLBACK
    if (facts.invalid_share or 0.0) > MAX_ERROR_SHARE:
        return Bottleneck.INVALID_REQUESTS
    if (facts.expired_share or 0.0) > MAX_ERROR_SHARE:
        return Bottleneck.TIME_OUTS
    if host_busy(facts) and any(late(row) or slow(row) for row in facts.classes):
        return Bottleneck.HOST
    if any(map(slow, facts.classes)):
        return Bottleneck.LONG_STEPS
    if any(map(late, facts.classes)):
        return Bottleneck.BATCH_FORMATION if _gathers(facts) else Bottleneck.FIRST_TOKENS
    return Bottleneck.UNKNOWN if errs(facts) or lacking(facts) else Bottleneck.NONE


def _waits(facts: Facts) -> bool:
    """Whether requests wait, for longer than a batch takes to gather; any wait counts where first tokens are late."""
    if facts.used_while_waiting is not None and any(_late_by_waiting(facts, row) for row in facts.classes):
        return True
    if facts.queued is None or facts.queued < 1:
        return False
    return not _gathers(facts) or not facts.window_s or (facts.oldest_wait_s or 0.0) > _WINDOWS * facts.window_s


def _late_by_waiting(facts: Facts, row: ClassFacts) -> bool:
    """Whether first tokens of a class are late, and waits are a part of that."""
    longest_s = facts.longest_wait_s
    return late(row) and (longest_s is None or longest_s >= _WAITED_PART * (row.ttft_p95_s or 0.0))


def _gathers(facts: Facts) -> bool:
    return facts.strategy not in ("", "continuous")


def refuses(facts: Facts) -> bool:
    """Whether requests, or those of a class, are refused for the load, or run out of time in the queue."""
    if (facts.refused_share or 0.0) > MAX_ERROR_SHARE:
        return True
    return any(row.overloaded or refused(row) for row in facts.classes)


def _memory_full(facts: Facts) -> bool:
    if facts.kv_ratio is not None and facts.kv_ratio >= KV_FULL:
        return True
    return facts.limit_reason in _BY_MEMORY or (facts.preemptions or 0.0) >= _MANY_PREEMPTIONS


def used_ratio(facts: Facts) -> float:
    """The share of the seats that is taken."""
    return (facts.seats_taken or 0.0) / facts.limit if facts.limit else 0.0


# ---------------------------------------------------------------------- how bad


def severity(facts: Facts, found: Bottleneck) -> Severity:
    """The severity of this bottleneck."""
    if found in (Bottleneck.ENGINE_DOWN, Bottleneck.ENGINE_SILENT, Bottleneck.STOPPED) and not facts.planned:
        return Severity.DOWN
    if facts.stuck is not None and facts.stuck.blocks_others and found is Bottleneck.ENGINE_STUCK:
        return Severity.DOWN
    missed = any(late(row) or slow(row) for row in facts.classes)
    pressed = _waits(facts) or refuses(facts)
    if pressed and (refuses(facts) or any(map(late, facts.classes))):
        return Severity.OVERLOADED
    if missed or errs(facts) or facts.compiling_s or facts.stuck is not None or facts.rung not in _NORMAL:
        return Severity.DEGRADED
    if pressed or found is not Bottleneck.NONE or _near(facts):
        return Severity.WATCH
    return Severity.OK


def _near(facts: Facts) -> bool:
    """Whether something is about to become short, or an objective about to be missed."""
    if used_ratio(facts) >= AT_LIMIT or (facts.kv_ratio or 0.0) >= KV_NEAR or facts.preemptions or facts.capped:
        return True
    return any(
        (row.ttft_p95_s or 0.0) > NEAR_OBJECTIVE * bound_s(row)
        or (row.inter_token_p95_s or 0.0) > NEAR_OBJECTIVE * (row.inter_token_slo_s or inf)
        for row in facts.classes
    )


def lacking(facts: Facts) -> list[str]:
    """The facts that are missing before the server can be called well. An idle class has nothing to tell."""
    figures = (
        ("error share", facts.error_share),
        ("KV cache in use", facts.kv_ratio),
        ("requests that wait", facts.queued),
        ("classes", facts.classes or None),
    )
    if facts.classes and facts.queued is not None and all(row.idle for row in facts.classes):
        return []
    missing = [words for words, figure in figures if figure is None]
    timed = [row for row in facts.classes if not row.idle]
    untimed = [row.name for row in timed if row.ttft_p95_s is None]
    unbound = [
        row.name
        for row in facts.classes
        if row.ttft_p95_s is not None and row.ttft_slo_s is None and row.first_token_timeout_s is None
    ]
    if untimed:
        missing.append(f"time to first token of {', '.join(untimed)}")
    if unbound:
        missing.append(f"objectives of {', '.join(unbound)}")
    return missing
