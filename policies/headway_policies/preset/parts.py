"""The places where each part of a preset acts: the parts with their keys, their needs, and the content of each place.

A part acts where all that it needs is there. A place states what it never has (``LACKS``); a running server knows what
it lacks besides, such as another model. ``no_effect`` has the line that either says for each ability that is lacking.
reference/settings.md of the documentation has this table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from headway_policies.preset.inert import without_effect
from headway_policies.preset.model import Preset


class Place(StrEnum):
    """A place where a preset may be in force."""

    SERVE = "headway serve"
    PLAIN = "vllm serve"
    ROUTE = "headway route"
    WRAP = "headway.wrap"
    BATCHER = "headway.Batcher"
    SIMULATE = "headway simulate"


class Ability(StrEnum):
    """A need of a part; the value says why the part has no effect without it."""

    SERVER = "a simulation has an engine that is warm, never fails and keeps its memory, and no fallback ladder"
    HTTP = "requests here name their class, and no service_tier"
    PROCESS = "the process is the program's own"
    STEPS = "the engine does not report its steps: without disable_log_stats vLLM's does, another one by listen()"
    SHAPES = "the steps of the engine cannot be shaped from here"
    REPLACER = "nothing here can start another engine"
    OTHER_MODEL = "no other model and no fixed reply is configured"
    WARMUP = "nothing here makes the requests of a warm-up"
    STAGES = "one function of the program makes all requests of a warm-up"
    CACHES = "no cache of the engine can be cleared from here"
    GPUS = "the GPUs of this machine are not known to be the engine's"
    WATCH = "instances are watched by heartbeats, which have bounds of their own"
    PROGRESS = "the engine does not report how far a step has come"


@dataclass(frozen=True, slots=True)
class Part:
    """Settings that act in the same places. In ``keys`` a star stands for the name of a class.

    A batcher has no preset: ``batcher`` is the argument or method that acts in place of the part; None: there is none.
    """

    name: str
    keys: tuple[str, ...]
    needs: tuple[Ability, ...] = ()
    batcher: str | None = None

    def lacks(self, lacking: Collection[Ability]) -> Ability | None:
        """The first of its needs that is not there."""
        return next((need for need in self.needs if need in lacking), None)


def _keys(table: str, keys: str) -> tuple[str, ...]:
    return tuple(f"{table}.{key}" for key in keys.split())


_CLASS = "classes.*"
_OF_SERVER = (Ability.SERVER,)

PARTS = (
    Part("seats", ("batching.seats",), batcher="`max_batch_size`"),
    Part(
        "strategy and window",
        _keys("batching", "strategy window_ms urgent_window_ms"),
        batcher="`max_wait_ms`, `urgent_wait_ms`",
    ),
    Part("other windows and batches", _keys("batching", "window bins preferred_batch_sizes flush_after_s")),
    Part("tokens in all", ("batching.max_total_tokens",), batcher="`max_total_tokens`"),
    Part("length of the queue", _keys("queue", "max_waiting evict"), batcher="`max_size`"),
    Part(
        "other bounds of the queue",
        _keys("queue", "max_waiting_tokens max_waiting_bytes")
        + _keys(_CLASS, "max_waiting max_waiting_tokens max_waiting_bytes"),
    ),
    Part("refusal before a time-out", _keys("queue", "refuse_infeasible shed_unreachable")),
    Part("objectives", _keys(_CLASS, "ttft_slo_s burst_s inter_token_slo_ms")),
    Part("room for urgent requests", ("queue.make_room",)),
    Part(
        "limit",
        _keys("limit", "policy inter_token_slo_ms set_point_ratio min_seats max_seats stale_after_s shadow"),
        (Ability.STEPS,),
        batcher="`latency_ms`",
    ),
    Part("limit by KV space", _keys("limit", "memory_aware kv_reserve_ratio"), (Ability.STEPS,)),
    Part("pace of prompts", ("limit.pace_prompts",), (Ability.STEPS,)),
    Part("share of prompts in a step", ("step.prefill_share",), (Ability.SHAPES,)),
    Part(
        "order between classes",
        ("default_class", *_keys("ordering", "between ageing_step_s"), *_keys(_CLASS, "priority share")),
        batcher="`priority`, always weighted",
    ),
    Part("order inside a class", _keys("ordering", "inside prefix_quantum_tokens prefix_max_overtakes")),
    Part("classes by tier", _keys(_CLASS, "service_tiers"), (Ability.HTTP,)),
    Part("total time-out", _keys(_CLASS, "total_timeout_s"), batcher="`timeout`"),
    Part("time-outs of a stage", _keys(_CLASS, "queue_timeout_s first_token_timeout_s stall_timeout_s")),
    Part("reserve of seats", _keys(_CLASS, "reserved_seats")),
    Part("warm-up", _keys("warmup", "tolerance_ratio max_rounds timeout_s ramp_s"), (*_OF_SERVER, Ability.WARMUP)),
    Part(
        "requests of a warm-up",
        _keys("warmup", "prompt_tokens output_tokens logprobs json_schema"),
        (*_OF_SERVER, Ability.WARMUP, Ability.STAGES),
        batcher="`warm_up`",
    ),
    Part("keep-warm", ("warmup.keep_warm_after_s",), (*_OF_SERVER, Ability.WARMUP)),
    Part(
        "shorter answers, shedding",
        _keys("fallback", "queue_age_s enter_s leave_s leave_ratio") + _keys(_CLASS, "fallback_max_tokens sheddable"),
        _OF_SERVER,
    ),
    Part("shorter answers by KV use", ("fallback.kv_usage_ratio",), (*_OF_SERVER, Ability.STEPS)),
    Part("seats beside a batch", ("fallback.bypass_seats", *_keys(_CLASS, "may_bypass")), _OF_SERVER),
    Part(
        "pause on errors",
        _keys("fallback", "error_ratio error_window_s error_min_requests pause_on_errors"),
        _OF_SERVER,
    ),
    Part("another model", ("fallback.engine_down", *_keys(_CLASS, "may_divert")), (*_OF_SERVER, Ability.OTHER_MODEL)),
    Part("watch for hangs", ("recovery.hang_after_s",), (*_OF_SERVER, Ability.WATCH)),
    Part("watch for slow steps", ("recovery.slow_step_after_s",), (*_OF_SERVER, Ability.PROGRESS)),
    Part(
        "restart",
        _keys("recovery", "max_restarts backoff_s healthy_after_s probation_s restart_hung"),
        (*_OF_SERVER, Ability.REPLACER),
    ),
    Part(
        "fewer seats by KV use",
        _keys("memory", "kv_usage_ratio leave_ratio lower_after_s raise_after_s decrease_ratio min_ratio"),
        (*_OF_SERVER, Ability.STEPS),
    ),
    Part("fewer seats by GPU memory", ("memory.gpu_usage_ratio",), (*_OF_SERVER, Ability.GPUS)),
    Part("the server's own memory", _keys("memory", "check_interval_s server_growth_bytes"), _OF_SERVER),
    Part(
        "caches of the engine",
        _keys("memory", "caches clear_every_s large_job_tokens clear_every_requests clear_max_running"),
        (*_OF_SERVER, Ability.CACHES),
        batcher="`clear_cache`, `clear_every_s`",
    ),
    Part(
        "recycle",
        _keys("memory", "recycle_every_s recycle_growth_bytes recycle_drain_s"),
        (*_OF_SERVER, Ability.REPLACER),
    ),
    Part("Python's collector", (), (*_OF_SERVER, Ability.PROCESS)),
    Part("a switch while requests run", ()),
)

#: The abilities that are never there. A batcher has no preset at all.
LACKS: Mapping[Place, frozenset[Ability]] = {
    Place.SERVE: frozenset(),
    Place.PLAIN: frozenset({Ability.REPLACER}),
    Place.ROUTE: frozenset(
        {Ability.REPLACER, Ability.CACHES, Ability.GPUS, Ability.WATCH, Ability.PROGRESS, Ability.SHAPES}
    ),
    Place.WRAP: frozenset({Ability.HTTP, Ability.PROCESS}),
    Place.SIMULATE: frozenset({Ability.SERVER, Ability.HTTP}),
}

#: A preset that needs these is meant for places without them as well: the bundled ones are.
OFFERED = frozenset({Ability.HTTP, Ability.OTHER_MODEL})

_OVER_HTTP = "over HTTP"
#: The abilities that are there under a condition.
CONDITIONS: Mapping[tuple[Place, Ability], str] = {
    **dict.fromkeys(((place, Ability.OTHER_MODEL) for place in (Place.SERVE, Place.PLAIN, Place.ROUTE)), _OVER_HTTP),
    (Place.WRAP, Ability.OTHER_MODEL): "`fallback=`",
    (Place.WRAP, Ability.REPLACER): "vLLM's, or `engine_factory=`",
    (Place.WRAP, Ability.WARMUP): "`warmup=`",
    (Place.WRAP, Ability.STAGES): "vLLM's",
    (Place.WRAP, Ability.CACHES): "vLLM's",
    (Place.WRAP, Ability.SHAPES): "vLLM's",
    (Place.WRAP, Ability.STEPS): "vLLM's, or one with `listen`",
    (Place.WRAP, Ability.PROGRESS): "vLLM's, or one with `progress`",
}


def no_effect(preset: Preset, lacking: Collection[Ability], *, stated_only: bool = False) -> dict[Ability, str]:
    """A line for each of these abilities without which something of this preset has no effect.

    The line names the parts, and of their settings those that are not left at their defaults; ``stated_only``: only
    parts with such a setting, and nothing ``OFFERED``. A part that is off, or that another setting makes void anyway,
    is left out.
    """
    settings = preset.settings()
    void = without_effect(settings)
    used = {_key(key) for key, value in settings.items() if value not in (False, [], "off") and key not in void}
    if not preset.limit.moves:
        used -= {key for key in used if key.startswith("limit.")}
    stated = {_key(key) for key in preset.stated()} & used
    names: dict[Ability, list[str]] = {}
    keys: dict[Ability, list[str]] = {}
    for part in PARTS:
        missing = part.lacks(lacking)
        if missing is None or used.isdisjoint(part.keys):
            continue
        if stated_only and (missing in OFFERED or stated.isdisjoint(part.keys)):
            continue
        names.setdefault(missing, []).append(part.name)
        keys.setdefault(missing, []).extend(key for key in part.keys if key in stated)
    return {missing: _line(missing, names[missing], keys[missing]) for missing in names}


def by_table(keys: Collection[str]) -> str:
    """Dotted keys, grouped by table: "[limit] policy, shadow"."""
    tables: dict[str, list[str]] = {}
    for key in keys:
        table, _, name = key.rpartition(".")
        tables.setdefault(table.removesuffix(".*"), []).append(name)
    return "; ".join((f"[{table}] " if table else "") + ", ".join(names) for table, names in tables.items())


def _line(missing: Ability, names: Collection[str], keys: Collection[str]) -> str:
    return f"{', '.join(names)}{f' ({by_table(keys)})' if keys else ''}: no effect here: {missing}"


def _key(key: str) -> str:
    """The key with a star for the name of a class."""
    table, _, name = key.partition(".")
    return f"classes.*.{name.rpartition('.')[2]}" if table == "classes" else key
