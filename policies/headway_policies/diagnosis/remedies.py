"""The remedies, the best first: another preset with its forecast, a setting, another instance.

Each says what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from headway_policies.diagnosis.bottleneck import Bottleneck
from headway_policies.diagnosis.facts import NO_INSTANCE, Facts, Forecasted
from headway_policies.diagnosis.rules import BY_SEATS, refuses
from headway_policies.diagnosis.symptoms import host_busy, late, prompts_held, refused, slowed_by_prompts
from headway_policies.engine import EngineState, StuckCause
from headway_policies.units import compact, duration, percent

#: A preset is proposed when it is forecast to serve so much more of what is offered.
_BETTER_RATIO = 0.02
#: A forecast of the preset in force that is off by more is not of this traffic.
_FAR = 0.2
_BOUND = 'bound what prompts take of a step: [step] prefill_share = "auto" in the preset'
_SHARE = "share of the steps for prompts: [step] prefill_share of the preset, as a number"


@dataclass(frozen=True, slots=True)
class Remedy:
    """An action, its cost, and the command that does it; empty where it is not one command."""

    action: str
    cost: str
    command: str = ""


_QUIET_HOST = Remedy(
    "find what else runs on the machine (with top) and move it, or give the server processors of its own "
    "(taskset, a cpuset, CPU requests in Kubernetes)",
    "the other work gets fewer processors",
)


def remedies(facts: Facts, found: Bottleneck) -> tuple[Remedy, ...]:
    """The remedies of a bottleneck; where seats are short on a machine that is busy with other work, that as well."""
    busy_too = found in BY_SEATS and host_busy(facts)
    return (*_BY_BOTTLENECK[found](facts), *((_QUIET_HOST,) if busy_too else ()))


def _another_instance(facts: Facts) -> Remedy:
    return Remedy("another instance of the server", "its hardware; needs a router in front of both")


def _another_preset(facts: Facts) -> Iterator[Remedy]:
    """The preset that is forecast to serve most, where it is clearly better than the present one; without a forecast of
    both that agrees with what happens, how to get one."""
    present = facts.forecast
    if present is None or not facts.forecasts or _contradicted(facts, present):
        yield Remedy(
            "forecast the presets with the recent traffic",
            "a low-priority process for some seconds; changes nothing",
            "headway preset forecast",
        )
        return
    best = max(facts.forecasts, key=_rank)
    alike = best.keeps_objectives == present.keeps_objectives
    if _rank(best) < _rank(present) or (alike and best.completed_ratio <= present.completed_ratio + _BETTER_RATIO):
        return
    within = " within the present objectives" if best.keeps_objectives else ""
    yield Remedy(
        f"the preset {best.name}, forecast to complete {percent(best.completed_ratio)} of the requests{within} (the "
        f"present preset: {percent(present.completed_ratio)})",
        _price(best, present),
        f"headway preset use {best.name} --revert-after 10m",
    )


def _rank(forecast: Forecasted) -> tuple[bool, float]:
    """The place in the list: objectives that are kept come first, then requests that are completed."""
    return forecast.keeps_objectives, forecast.completed_ratio


def _contradicted(facts: Facts, present: Forecasted) -> bool:
    """Whether what is served now is far from the forecast of the preset in force: then it was of other traffic."""
    served = None if facts.error_share is None else 1 - facts.error_share
    return served is not None and abs(served - present.completed_ratio) > _FAR


def _price(best: Forecasted, present: Forecasted) -> str:
    """The figures that get worse with a remedy, as forecast."""
    figures = (("first tokens", "ttft_p95_s"), ("time between tokens", "inter_token_p95_s"))
    worse = []
    for words, name in figures:
        then, now = getattr(best, name), getattr(present, name)
        if then is not None and (now is None or then > now):
            worse.append(f"{words} p95 {duration(then)}" + ("" if now is None else f" instead of {duration(now)}"))
    return f"forecast: {', '.join(worse)}" if worse else "none forecast"


def _seats(facts: Facts) -> Iterator[Remedy]:
    if facts.limit_set:
        yield Remedy(
            "release the limit that an operator has set, on the page Control", "longer steps, with the preset's seats"
        )
    yield from _another_preset(facts)
    ceiling = facts.ceiling
    if ceiling is not None and facts.limit is not None and facts.limit < ceiling:
        seats = min(round(ceiling), max(round(facts.limit) + 1, round(2 * facts.limit)))
        yield Remedy(
            f"more seats: {seats}{_gain(facts)}",
            "longer steps: every answer that runs gets its tokens more slowly",
            f"headway tune --seats {round(facts.limit)},{seats}",
        )
    yield _another_instance(facts)


def _ceiling(facts: Facts) -> Iterator[Remedy]:
    yield from _another_preset(facts)
    yield Remedy(
        f"a start with more seats (--max-num-seqs){_gain(facts)}",
        "a restart; longer steps, and memory for more sequences",
    )
    yield _another_instance(facts)


def _gain(facts: Facts) -> str:
    gain = facts.doubling_gain
    return "" if gain is None else f" (twice as many give about {percent(gain)} more tokens a second)"


def _engine_speed(facts: Facts) -> Iterator[Remedy]:
    yield from _shaped(facts)
    yield from _another_preset(facts)
    if facts.adaptive is False:
        yield Remedy(
            'a limit that follows the objectives: limit.policy = "model", as in the preset interactive',
            "more requests are refused at once, so that the others keep their objectives",
            "headway preset use interactive --revert-after 10m",
        )
    yield Remedy(
        "shorter answers under load: fallback_max_tokens of the less urgent classes",
        "answers of those classes are cut while the fallback ladder is on its rung cap",
    )
    yield _another_instance(facts)


def _memory(facts: Facts) -> Iterator[Remedy]:
    yield from _another_preset(facts)
    if facts.adaptive is False:
        yield Remedy(
            "a limit that follows the memory: limit.memory_aware = true", "fewer seats while sequences are long"
        )
    yield Remedy(
        "more KV cache: --gpu-memory-utilization, or on a CPU VLLM_CPU_KVCACHE_SPACE; --kv-cache-dtype fp8",
        "a restart; memory, or with fp8 some accuracy",
    )
    yield _another_instance(facts)


def _batch_formation(facts: Facts) -> Iterator[Remedy]:
    yield from _another_preset(facts)
    yield Remedy(
        'continuous batching (batching.strategy = "continuous"), as in the preset balanced',
        "batches of mixed sizes: no token budget for a whole batch",
        "headway preset use balanced --revert-after 10m",
    )
    if facts.strategy == "dynamic":
        yield Remedy("a shorter batching.window_ms", "smaller batches: fewer tokens a second under light load")


def _reserved_seats(facts: Facts) -> Iterator[Remedy]:
    """Fewer reserved seats, unless a class for which they are kept is refused or late itself."""
    if not any(row.reserved_seats >= 1 and (refused(row) or late(row)) for row in facts.classes):
        yield Remedy(
            f"set reserved_seats of the urgent classes below the {compact(round(facts.reserved_seats))} free ones",
            "urgent requests wait longer for their first token",
        )
    yield from _another_preset(facts)


def _request_size(facts: Facts) -> Iterator[Remedy]:
    yield Remedy(
        "narrower requests (n, number of prompts), or a larger batching.max_total_tokens",
        "the clients send more requests, or a step computes more tokens",
    )
    yield from _another_preset(facts)


def _adapters(facts: Facts) -> Iterator[Remedy]:
    yield Remedy("a start with more adapters at once (--max-loras)", "a restart; memory for the adapters, longer steps")
    yield _another_instance(facts)


def _bursts(facts: Facts) -> Iterator[Remedy]:
    """Longer queues help only those that are refused; the others wait for seats."""
    if not refuses(facts):
        yield from _seats(facts)
        return
    yield Remedy(
        "longer queues for the class: max_waiting, burst_s, or a longer time-out of the clients",
        "requests wait longer for their seat in a burst",
    )
    yield from _another_preset(facts)


def _host(facts: Facts) -> Iterator[Remedy]:
    yield _QUIET_HOST
    yield Remedy("another instance of the server, on another machine", "its hardware; needs a router in front of both")


def _shaped(facts: Facts) -> Iterator[Remedy]:
    """The setting of the step policy, where long prompts slow down decode."""
    if facts.shapes_steps is not None and slowed_by_prompts(facts):
        bound = f"a smaller {_SHARE}" if facts.shapes_steps else _BOUND
        yield Remedy(bound, "long prompts have their first token later")


def _long_steps(facts: Facts) -> Iterator[Remedy]:
    yield from _shaped(facts)
    yield from _another_preset(facts)
    running = facts.seats_taken or 0.0
    if facts.adaptive is False and running >= 2:  # a limit above what runs would change nothing
        seats = round(running) // 2
        yield Remedy(f"fewer seats: {seats}", "requests wait for a seat", f"headway tune --seats {seats}")
    if facts.adaptive is False:
        yield Remedy(
            'a limit that follows the objective: limit.policy = "model", as in the preset interactive',
            "requests wait, or are refused, while the limit is reached",
            "headway preset use interactive --revert-after 10m",
        )
    yield _another_instance(facts)


def _first_tokens(facts: Facts) -> Iterator[Remedy]:
    if prompts_held(facts):
        yield Remedy(f"a larger {_SHARE}", "longer steps for the answers that run")
    yield Remedy(
        "shorter prompts, prompts that share a prefix (prefix caching), or a longer ttft_slo_s for this class",
        "the clients have to change, or an objective is given up",
    )
    yield Remedy(
        "more prompt tokens in a step: --max-num-batched-tokens", "a restart; longer steps for the answers that run"
    )


def _engine_errors(facts: Facts) -> Iterator[Remedy]:
    yield Remedy("read the server's log, which names the error of each failed request", "none")
    if facts.replaceable is not False:
        yield Remedy(
            "a new engine in place of this one",
            "new requests queue until it is warm; running ones finish first",
            "headway recycle --reason 'requests fail'",
        )


def _time_outs(facts: Facts) -> Iterator[Remedy]:
    yield Remedy(
        "shorter answers (max_tokens), or longer time-outs of the class: first_token, stall, total",
        "clients get less, or wait longer before they learn that it takes too long",
    )
    yield from _another_preset(facts)


def _invalid(facts: Facts) -> Iterator[Remedy]:
    yield Remedy("the clients: their answers say what is wrong with the request", "none for the server")


def _fallback(facts: Facts) -> Iterator[Remedy]:
    yield Remedy(
        "let the ladder move by itself again", "the ladder degrades requests again by its triggers",
        "headway fallback auto",
    )  # fmt: skip


def _engine_down(facts: Facts) -> Iterator[Remedy]:
    if facts.engine is EngineState.LOST:
        yield Remedy("start the server again; its log has the last error of the engine", "its start, and the warm-up")
        return
    yield Remedy(
        "wait for the engine that replaces it; the server's log has the last error of the old one",
        "requests that wait run into their time-outs",
    )


def _engine_silent(facts: Facts) -> Iterator[Remedy]:
    if facts.replaceable and facts.restarts_hung:
        yield Remedy("wait: the engine is replaced when it stays silent", "requests that wait run into their time-outs")
    elif facts.replaceable is not False:
        yield Remedy(
            "end the process EngineCore where the engine stays silent: `headway serve` starts another one; "
            "recovery.restart_hung = true does it by itself",
            "requests that run are lost or retried",
        )
    else:
        yield Remedy("start the server again where the engine stays silent", "its start; requests that run are lost")


_STUCK: Mapping[StuckCause, Remedy] = {
    StuckCause.KV_FULL: Remedy(
        "fewer seats, or a larger KV cache, so that all requests in the engine fit into the cache",
        "requests wait for their seat instead",
    ),
    StuckCause.NOT_ADMITTED: Remedy(
        "a smaller --max-model-len, or a larger KV cache: the first request in the engine's line may need more of it "
        "than is free, and all others wait behind it",
        "longer requests are refused",
    ),
    StuckCause.GRAMMAR: Remedy(
        "refuse such grammars: HEADWAY_MAX_GRAMMAR_SECONDS above 0 compiles each outside of the engine first",
        "grammars that take longer are refused",
    ),
    StuckCause.DEFERRED: Remedy(
        "look at what the requests wait for: the server that sends their KV blocks, and its connector",
        "none for this server",
    ),
    StuckCause.NO_TOKENS: Remedy("look at the engine's last lines in the log of the server", "none"),
}


def _engine_stuck(facts: Facts) -> Iterator[Remedy]:
    """The engine is not replaced by itself, but for grammars that keep others waiting: another one would meet the same
    requests.
    """
    if facts.stuck is not None:
        yield _STUCK[facts.stuck]
    if facts.stuck is StuckCause.GRAMMAR:
        yield Remedy(
            "wait: an engine in which other grammars wait for recovery.slow_step_after_s is replaced",
            "structured outputs wait until then",
        )
    else:
        yield Remedy(
            "wait: the time-outs of its requests empty the engine, and it is not replaced by itself",
            "these requests are lost",
        )
    if facts.replaceable is not False:
        yield Remedy(
            "end the process EngineCore where it stays so: `headway serve` starts another one",
            "requests that had output are lost, others are retried",
        )


def _capped(facts: Facts) -> Iterator[Remedy]:
    yield Remedy(
        "wait: seats open step by step once memory is free, the engine has run for a while or the instance is back",
        "requests wait until then",
    )
    yield from _memory(facts)


def _stopped(facts: Facts) -> Iterator[Remedy]:
    if facts.rung == "pause" and facts.rung_set:
        yield from _fallback(facts)
    elif facts.planned:
        yield Remedy("nothing: the stop was planned, and ends by itself", "requests wait, or are refused, until then")
    elif NO_INSTANCE in facts.stopped:
        yield Remedy(
            "start the instances, or correct --instances; the log of the router names each",
            "requests wait until an instance is healthy",
        )
    else:
        yield Remedy("resume dispatch where it was paused; the status names the reason", "none")


def _none(facts: Facts) -> Iterator[Remedy]:
    """No remedy. A batch that is never full wastes throughput only where requests are made to wait for it."""
    taken, limit = facts.mean_batch, facts.limit
    if facts.strategy in ("static", "dynamic") and taken is not None and limit and taken < limit / 4:
        yield Remedy(
            f"a longer batching.window_ms, or fewer seats: the mean batch is {compact(taken)} of {compact(limit)}",
            "requests wait longer for their batch",
        )


_BY_BOTTLENECK: Mapping[Bottleneck, Callable[[Facts], Iterator[Remedy]]] = {
    Bottleneck.ENGINE_DOWN: _engine_down,
    Bottleneck.ENGINE_SILENT: _engine_silent,
    Bottleneck.ENGINE_STUCK: _engine_stuck,
    Bottleneck.STOPPED: _stopped,
    Bottleneck.MEMORY: _memory,
    Bottleneck.HOST: _host,
    Bottleneck.ENGINE_SPEED: _engine_speed,
    Bottleneck.SEATS: _seats,
    Bottleneck.CEILING: _ceiling,
    Bottleneck.CAPPED_SEATS: _capped,
    Bottleneck.BATCH_FORMATION: _batch_formation,
    Bottleneck.RESERVED_SEATS: _reserved_seats,
    Bottleneck.REQUEST_SIZE: _request_size,
    Bottleneck.ADAPTERS: _adapters,
    Bottleneck.BURSTS: _bursts,
    Bottleneck.LONG_STEPS: _long_steps,
    Bottleneck.FIRST_TOKENS: _first_tokens,
    Bottleneck.ENGINE_ERRORS: _engine_errors,
    Bottleneck.TIME_OUTS: _time_outs,
    Bottleneck.INVALID_REQUESTS: _invalid,
    Bottleneck.FALLBACK: _fallback,
    Bottleneck.NONE: _none,
    Bottleneck.UNKNOWN: _none,
}
