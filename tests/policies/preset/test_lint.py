"""Warnings about settings that are valid and probably unintended."""

from __future__ import annotations

import pytest

from headway_policies import bundled_presets, parse_preset
from headway_policies.limits import EngineFit
from headway_policies.preset import SeatBounds, best_seats, lint, typical_tokens

BASE = 'name = "mine"\nextends = "balanced"\n'
FIXED = 'limit.policy = "fixed"\nlimit.memory_aware = false\n'
DYNAMIC = 'batching.strategy = "dynamic"\nclasses.realtime.reserved_seats = 0\n'
STATIC = 'batching.strategy = "static"\nclasses.realtime.reserved_seats = 0\n'
FLUSHED = STATIC + "batching.flush_after_s = 1\n"

CAUTIONS: dict[str, tuple[str, list[str]]] = {
    "a window too short": (DYNAMIC + "batching.window_ms = 9", ["batching.window_ms: 9 is outside"]),
    "a window too long": (DYNAMIC + "batching.window_ms = 201", ["batching.window_ms: 201 is outside"]),
    "seats beyond the knee": (FIXED + "batching.seats = 65", ["batching.seats: beyond 64"]),
    "bins where no batch ends as one": ("batching.bins = 2", ["batching.bins: no effect under continuous"]),
    "an adaptive window that nothing uses": ('batching.window = "adaptive"', ["batching.window: no effect"]),
    "preferred sizes of static": (FLUSHED + "batching.preferred_batch_sizes = [8]", ["batching.preferred_batch_sizes"]),
    "a flush that nothing uses": (DYNAMIC + "batching.flush_after_s = 5", ["batching.flush_after_s: no effect"]),
    "a tail that waits": (STATIC, ["batching.flush_after_s: not set"]),
    "a tail that times out first": (
        STATIC + "batching.flush_after_s = 5",
        ["classes.realtime.queue_timeout_s: ends before a batch that does not fill is dispatched (5 s)"],
    ),
    "a reserve in a batch": (
        'batching.strategy = "dynamic"\nclasses.realtime.reserved_seats = 2',
        ["classes.realtime.reserved_seats: stay empty in each batch"],
    ),
    "a reserve of the last": ("classes.batch.reserved_seats = 1", ["classes.batch.reserved_seats: no effect"]),
    "strict order": (
        'ordering.between = "strict"',
        ["ordering.between: strict", "classes: share has no effect under strict"],
    ),
    "a step of ageing under another order": (
        "ordering.ageing_step_s = 3.0",
        ["ordering.ageing_step_s: no effect under weighted, only under ageing"],
    ),
    "ageing with shares": ('ordering.between = "ageing"', ["classes: share has no effect under ageing"]),
    "a stall shorter than the promise": (
        'limit = { policy = "aimd", inter_token_slo_ms = 30000 }',
        ["classes.realtime.stall_timeout_s", "classes.normal.stall_timeout_s"],
    ),
    "bounds of a limit that is fixed": (
        'limit = { policy = "fixed", memory_aware = false, min_seats = 2, max_seats = 48, set_point_ratio = 0.9 }',
        ["limit.set_point_ratio: no effect under fixed", "limit.min_seats: no effect", "limit.max_seats: no effect"],
    ),
    "memory of a limit that does not follow it": (
        'limit = { policy = "fixed", memory_aware = false, kv_reserve_ratio = 0.1, stale_after_s = 5, shadow = true }',
        ["limit.kv_reserve_ratio: no effect", "limit.stale_after_s: no effect", "limit.shadow: no effect"],
    ),
    "an objective that no limit keeps": (
        'limit = { policy = "fixed", memory_aware = false, inter_token_slo_ms = 60 }',
        ['limit.inter_token_slo_ms: no limit keeps it under fixed; set limit.policy, for example "model"'],
    ),
    "an objective of a limit that looks at tokens a second only": (
        'limit = { policy = "knee", inter_token_slo_ms = 60, set_point_ratio = 0.9 }',
        [
            "limit.set_point_ratio: no effect under knee",
            "limit.inter_token_slo_ms: no limit keeps it under knee",
        ],
    ),
    "a wait longer than the first token may take": (
        "classes.realtime.queue_timeout_s = 16",
        ["classes.realtime.queue_timeout_s: no effect: first_token_timeout_s is shorter"],
    ),
    "an objective longer than its time-out": (
        'classes.realtime.ttft_slo_s = "8x 16..20"\nclasses.normal.ttft_slo_s = 61',
        ["classes.realtime.ttft_slo_s: longer than first_token", "classes.normal.ttft_slo_s: longer than first_token"],
    ),
    "a burst without an objective": (
        "classes.extra = { priority = 0, max_waiting = 5, burst_s = 5 }",
        ["classes.extra.burst_s: no effect without ttft_slo_s"],
    ),
    "a wait longer than all may take": (
        "classes.realtime = { queue_timeout_s = 6, first_token_timeout_s = 7, total_timeout_s = 5 }",
        ["classes.realtime.queue_timeout_s: no effect", "classes.realtime.first_token_timeout_s: no effect"],
    ),
    "terms of cached prefixes under another order": (
        "ordering = { prefix_quantum_tokens = 100, prefix_max_overtakes = 0 }",
        [
            "ordering.prefix_quantum_tokens: no effect under fair, only under prefix",
            "ordering.prefix_max_overtakes: no effect under fair, only under prefix",
        ],
    ),
    "an order by cached prefixes, which are cleared": (
        'ordering = { inside = "prefix" }\nmemory = { caches = ["worker", "prefix"] }',
        ['memory.caches: "prefix" empties the cache on which ordering.inside = "prefix" relies'],
    ),
    "a hung engine that must not be replaced": (
        "recovery = { max_restarts = 0, restart_hung = true }",
        ["recovery.restart_hung: no effect: recovery.max_restarts is 0"],
    ),
    "a recycle that waits less than an answer takes": (
        "memory = { recycle_every_s = 86400, recycle_drain_s = 600 }",
        ["memory.recycle_drain_s: shorter than an answer of batch may take"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), CAUTIONS.values(), ids=CAUTIONS)
def test_a_doubtful_setting_gives_one_warning_and_no_other(text: str, expected: list[str]) -> None:
    """Each caution names its key; no other is raised with it."""
    found = lint(parse_preset(BASE + text, "mine.toml"))
    assert len(found) == len(expected)
    for line, start in zip(found, expected, strict=True):
        assert line.startswith(start)


@pytest.mark.parametrize(
    "text",
    [
        DYNAMIC + "batching.window_ms = 10",
        DYNAMIC + "batching.window_ms = 200",
        DYNAMIC + 'batching.bins = 4\nbatching.window = "adaptive"\nbatching.preferred_batch_sizes = [8]',
        "batching.window_ms = 0",
        "batching.seats = 64",
        'ordering = { inside = "prefix", prefix_quantum_tokens = 100, prefix_max_overtakes = 0 }',
        'memory = { caches = ["worker", "prefix"] }',
        FLUSHED + "batching.bins = 4",
        'limit = { policy = "model", inter_token_slo_ms = 29999 }',
        "limit = { inter_token_slo_ms = 100 }",
        FIXED,
        "batching.seats = 300",
        'classes.realtime.ttft_slo_s = "8x 0.3.."',
        'limit = { policy = "fixed", memory_aware = true, min_seats = 2, max_seats = 48, kv_reserve_ratio = 0.1 }',
    ],
)
def test_what_is_usual_raises_no_caution(text: str) -> None:
    """The bounds themselves are fine, and a window that nothing uses may be anything."""
    assert lint(parse_preset(BASE + text, "mine.toml")) == []


WIDE = FIXED + "batching.seats = 80"


@pytest.mark.parametrize(
    ("text", "bounds", "expected"),
    [
        (WIDE, SeatBounds(), ["batching.seats: beyond 64 each seat usually adds less throughput"]),
        (WIDE, SeatBounds(knee_seats=100), []),
        (WIDE, SeatBounds(knee_seats=80, kv_seats=80), []),
        (
            WIDE,
            SeatBounds(knee_seats=79),
            ["batching.seats: beyond 79 seats 10 % more tokens a second cost this engine"],
        ),
        (
            FIXED + "batching.seats = 16",
            SeatBounds(12, 1024.0),
            ["batching.seats: the KV space has room for 12 sequences of 1024 tokens, a typical length, not for 16"],
        ),
        (
            WIDE,
            SeatBounds(12, 300.0, recorded=True, knee_seats=20),
            [
                "batching.seats: the KV space has room for 12 sequences of 300 tokens, the recent mean",
                "batching.seats: beyond 20",
            ],
        ),
        ("batching.seats = 80", SeatBounds(12, 300.0, recorded=True, knee_seats=20, best_seats=500), []),
        (
            'limit = { policy = "fixed", memory_aware = true }\nbatching.seats = 80',
            SeatBounds(12, 300.0, knee_seats=20),
            ["batching.seats: beyond 20"],
        ),
        (
            FIXED,
            SeatBounds(best_seats=110),
            ['limit.policy: fixed at 32 seats: this engine keeps the objective with about 110; policy = "model"'],
        ),
        (FIXED, SeatBounds(best_seats=64), []),
        (FIXED + "batching.seats = 1", SeatBounds(best_seats=110), []),
    ],
)
def test_the_engines_own_bounds_take_the_place_of_the_usual_one(
    text: str, bounds: SeatBounds, expected: list[str]
) -> None:
    """A limit that follows the engine finds them by itself; one that is fixed at under half of what the engine would
    bear is told what that costs, unless a single seat is meant.
    """
    found = lint(parse_preset(BASE + text, "mine.toml"), bounds)
    assert len(found) == len(expected)
    assert all(line.startswith(start) for line, start in zip(found, expected, strict=True))


def test_what_an_engine_would_bear_follows_from_its_fit() -> None:
    """30 ms a step and 1 ms a sequence: at 0.92 of 100 ms the engine bears 62; without a fit it is not known."""
    preset = parse_preset(BASE + FIXED + "limit.inter_token_slo_ms = 100", "mine.toml")
    engine = EngineFit()
    assert best_seats(preset, engine) is None
    engine.recall({"base_s": 0.03, "sequence_s": 0.001, "prefill_token_s": 0.0, "prefill_tokens_per_sequence": 0.0})
    assert best_seats(preset, engine) == 62
    relative = parse_preset(BASE + FIXED + 'limit.inter_token_slo_ms = "2x"', "mine.toml")
    assert best_seats(relative, engine) == round((0.95 * 0.92 * 2 * 31 - 30) / 1)
    assert best_seats(parse_preset(BASE + 'limit.policy = "knee"', "mine.toml"), engine) is None


def test_a_typical_sequence_is_its_part_of_the_token_budget_or_a_usual_one() -> None:
    """And never longer than the engine can hold."""
    presets = bundled_presets()
    assert typical_tokens(presets["dynamic"], None) == 8192 / 32
    assert typical_tokens(presets["balanced"], None) == 1024
    assert typical_tokens(presets["balanced"], 512) == 512
