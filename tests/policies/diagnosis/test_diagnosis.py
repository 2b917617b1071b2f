"""The diagnosis of a server: what its sentences name, where the thresholds lie, and when it must not be favourable."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from diagnosed_facts import FULL, INF, JUST_ABOVE, JUST_BELOW, LATE, NAN, NORMAL, SLOW, WELL, is_favourable

from headway_policies.diagnosis import (
    NO_INSTANCE,
    Bottleneck,
    ClassFacts,
    Facts,
    Forecasted,
    Severity,
    diagnose,
    main_causes,
    symptoms,
)
from headway_policies.engine import EngineState, StuckCause

TOO_SLOW = "Tokens of class normal come too slowly: 100 ms between two (p95), its objective is 75 ms."

# ---------------------------------------------------------------------- the rules


@pytest.mark.parametrize(
    ("facts", "severity", "bottleneck", "sentence"),
    [
        (WELL, "ok", "none", "Far below capacity: 5 of 32 seats taken, no request waits. First tokens within 120 ms"),
        (replace(WELL, seats_taken=20), "ok", "none", "Below capacity: 20 of 32 seats taken"),
        (replace(WELL, seats_taken=32), "watch", "none", "At capacity, without delay: 32 of 32 seats taken"),
        (
            replace(WELL, seats_taken=0, classes=(replace(NORMAL, ttft_p95_s=None, idle=True),), error_share=None),
            "ok", "none", "Idle: 0 of 32 seats taken, no request waits.",
        ),
        (
            FULL, "watch", "seats",
            "Limited by the seats of this preset: 32 of 32 seats taken, 41 waiting, the oldest for 3.2 s.",
        ),
        (
            replace(FULL, classes=LATE), "overloaded", "seats",
            "First tokens of class normal come too late: 46 s (p95), its objective is 2 s. Limited by the seats",
        ),
        (replace(FULL, ceiling=32), "watch", "ceiling", "Limited by the seats that this engine was started with"),
        (
            replace(FULL, limit_reason="policy"), "watch", "engine_speed",
            "Limited by the engine: 32 of 32 seats taken, 41 waiting, the oldest for 3.2 s. More seats will not help "
            "(limit: as the policy proposed).",
        ),
        (
            replace(FULL, doubling_gain=0.1), "watch", "engine_speed",
            "Limited by the engine: 32 of 32 seats taken, 41 waiting, the oldest for 3.2 s. More seats will not help "
            "(twice as many would give about 10 % more tokens a second).",
        ),
        (replace(FULL, doubling_gain=0.2), "watch", "seats", "Limited by the seats of this preset"),
        (replace(FULL, classes=SLOW), "degraded", "engine_speed", "Tokens of class normal come too slowly: 100 ms"),
        (replace(FULL, kv_ratio=0.97), "watch", "memory", "Limited by memory: the KV cache is 97 % full, 41 waiting"),
        (replace(FULL, preemptions=3), "watch", "memory", "Limited by memory: the engine preempted 3 sequences"),
        (replace(FULL, preemptions=2), "watch", "seats", "Limited by the seats of this preset"),
        (replace(FULL, capped=True, limit=16, seats_taken=16), "watch", "capped_seats", "Fewer seats are"),
        (replace(FULL, limit_reason="min_seats"), "watch", "engine_speed", "Limited by the engine"),
        (
            replace(WELL, seats_taken=10, queued=8, used_while_waiting=1.0), "watch", "bursts",
            "Requests arrive in bursts, while on the mean seats are free: 10 of 32 seats taken, 8 waiting.",
        ),
        (
            replace(WELL, seats_taken=26, queued=0.4, used_while_waiting=1.0, classes=LATE), "overloaded", "seats",
            "First tokens of class normal come too late: 46 s (p95), its objective is 2 s. Limited by the seats",
        ),
        (
            replace(WELL, seats_taken=16, queued=3, strategy="dynamic", window_s=0.05, oldest_wait_s=0.06),
            "ok", "none", "Below capacity: 16 of 32 seats taken, 3 waiting",
        ),
        (
            replace(WELL, seats_taken=16, queued=3, strategy="dynamic", window_s=0.05, oldest_wait_s=0.2), "watch",
            "batch_formation", "Requests wait for a batch (dynamic batching)",
        ),
        (
            replace(WELL, seats_taken=16, queued=3, strategy="static", window_s=INF, oldest_wait_s=900.0),
            "ok", "none", "Below capacity: 16 of 32 seats taken, 3 waiting",
        ),
        (replace(WELL, strategy="dynamic", classes=LATE), "degraded", "batch_formation", "First tokens of class"),
        (replace(FULL, limit_reason="kv"), "watch", "memory", "Limited by memory: the KV cache is near full"),
        (
            replace(WELL, seats_taken=10, queued=4, strategy="dynamic"), "watch", "batch_formation",
            "Requests wait for a batch (dynamic batching) although seats are free: 10 of 32 seats taken, 4 waiting.",
        ),
        (
            replace(WELL, seats_taken=28, queued=4, reserved_seats=4), "watch", "held_seats",
            "Requests wait although seats are free: 28 of 32 seats taken, 4 waiting. "
            "4 are reserved for urgent classes.",
        ),
        (
            replace(WELL, seats_taken=10, queued=4), "watch", "request_size",
            "Requests wait although seats are free, for more seats or tokens at once: 10 of 32 seats taken, 4 waiting.",
        ),
        (
            replace(WELL, seats_taken=10, queued=4, limit_reason="adapter"), "watch", "adapters",
            "Requests wait for a LoRA adapter although seats are free: 10 of 32 seats taken, 4 waiting.",
        ),
        (
            replace(WELL, seats_taken=10, queued=4, limit_reason="pacing"), "watch", "engine_speed",
            "Limited by the engine: 10 of 32 seats taken, 4 waiting.",
        ),
        (
            replace(WELL, error_share=0.2, refused_share=0.2, causes={"expected wait too long": 2.0, "failed": 1.0}),
            "overloaded",
            "bursts", "20 % of requests end without an answer; main cause: expected wait too long. Requests arrive in",
        ),
        (
            replace(FULL, error_share=0.2, refused_share=0.2, causes={"queue full": 1.0}), "overloaded", "seats",
            "20 % of requests end without an answer; main cause: queue full. Limited by the seats of this preset",
        ),
        (
            replace(WELL, classes=LATE), "degraded", "first_tokens",
            "First tokens of class normal come too late: 46 s (p95), its objective is 2 s. No request waits for a seat",
        ),
        (
            replace(WELL, classes=(replace(NORMAL, ttft_slo_s=INF, ttft_p95_s=61.0),)), "degraded", "first_tokens",
            "First tokens of class normal come too late: 1 min 1 s (p95), its time-out is 1 min.",
        ),
        (replace(WELL, classes=SLOW), "degraded", "long_steps", "Tokens of class normal come too slowly: 100 ms"),
        (
            replace(WELL, classes=SLOW, prompt_share=0.4, longest_prompt_s=1.9, shapes_steps=False),
            "degraded", "long_steps",
            f"{TOO_SLOW} Decode is slowed by long prompts: they take 40 % of the engine's time, up to 1.9 s in one "
            'step; `[step] prefill_share = "auto"` bounds them. Long prompts make steps long: 5 of 32 seats taken',
        ),
        (
            replace(WELL, classes=SLOW, prompt_share=0.4, longest_prompt_s=1.9), "degraded", "long_steps",
            f"{TOO_SLOW} Decode is slowed by long prompts: they take 40 % of the engine's time, up to 1.9 s in one "
            "step. Long prompts make steps long",
        ),
        (
            replace(WELL, classes=SLOW, prompt_share=0.4, longest_prompt_s=0.05, shapes_steps=False),
            "degraded", "long_steps", f"{TOO_SLOW} Too many requests run at once for their objective",
        ),
        (
            replace(WELL, classes=LATE, longest_held_s=45.0, shapes_steps=True), "degraded", "first_tokens",
            "First tokens of class normal come too late: 46 s (p95), its objective is 2 s. Long prompts are postponed "
            "for up to 45 s in the engine, so that running answers keep their pace. No request waits for a seat",
        ),
        (
            replace(WELL, error_share=0.2, failed_share=0.2, causes={"failed": 1.0}), "degraded", "engine_errors",
            "20 % of requests end without an answer; main cause: failed. 20 % of requests fail in the engine.",
        ),
        (
            replace(WELL, error_share=0.2, invalid_share=0.2), "watch", "invalid_requests",
            "20 % of requests are invalid: the clients' mistake.",
        ),
        (
            replace(
                WELL, error_share=0.3, failed_share=0.1, invalid_share=0.2, causes={"failed": 1, "invalid request": 2}
            ),
            "degraded", "engine_errors",
            "10 % of requests end without an answer; main cause: failed. 10 % of requests fail in the engine.",
        ),
        (
            replace(WELL, error_share=0.2, expired_share=0.2), "degraded", "time_outs",
            "20 % of requests end without an answer. 20 % of requests run out of time while they run.",
        ),
        (
            replace(WELL, rung="shed", rung_set=True), "degraded", "fallback",
            "The fallback ladder was put on shed by a command.",
        ),
        (replace(WELL, compiling_s=34.0), "degraded", "none", "The engine has been compiling a grammar for 34 s"),
        (
            replace(WELL, stuck=StuckCause.KV_FULL, stuck_s=9.0, queued=3), "down", "engine_stuck",
            "The engine steps without any token: its KV cache is full, for 9 s, 3 waiting.",
        ),
        (
            replace(WELL, stuck=StuckCause.DEFERRED, stuck_s=9.0, queued=0), "degraded", "engine_stuck",
            "The engine computes nothing: all its requests wait for data from other servers, for 9 s.",
        ),
        (
            replace(FULL, stuck=StuckCause.DEFERRED, stuck_s=9.0, refused_share=0.2), "overloaded", "engine_stuck",
            "The engine computes nothing: all its requests wait for data from other servers, for 9 s, 41 waiting",
        ),
        (replace(WELL, engine=EngineState.SILENT, stuck=StuckCause.NO_TOKENS), "down", "engine_silent", "The engine"),
        (replace(WELL, rung="cap"), "degraded", "none", "The fallback ladder is on its rung cap. Far below capacity"),
        (replace(WELL, rung="pause"), "down", "stopped", "No request is dispatched: the fallback ladder is on"),
        (
            replace(WELL, error_share=0.2, causes={"server not ready": 1.0}), "degraded", "unknown",
            "20 % of requests end without an answer; main cause: server not ready. 5 of 32 seats taken, no request",
        ),
        (
            replace(WELL, classes=(replace(NORMAL, error_share=0.5),)), "degraded", "unknown",
            "50 % of the requests of class normal end without an answer. 5 of 32 seats taken, no request waits.",
        ),
        (replace(WELL, stopped="draining", queued=3), "down", "stopped", "No request is dispatched: draining, 3 wait"),
        (replace(WELL, stopped="draining", planned=True), "watch", "stopped", "No request is dispatched: draining."),
        (
            replace(WELL, stopped="draining", planned=True, error_share=0.2, refused_share=0.2),
            "overloaded", "stopped", "20 % of requests end without an answer. No request is dispatched: draining.",
        ),
        (replace(WELL, limit=0, seats_taken=0), "down", "stopped", "No request is dispatched: no seat is open."),
        (
            replace(FULL, engine=EngineState.RESTARTING), "down", "engine_down",
            "The engine is being replaced, 41 waiting, the oldest for 3.2 s.",
        ),
        (replace(WELL, engine=EngineState.LOST), "down", "engine_down", "The engine is gone."),
        (replace(WELL, engine=EngineState.SILENT), "down", "engine_silent", "The engine does not respond."),
        (replace(WELL, seats_taken=None), "watch", "unknown", "Seats taken and limit are not measured here."),
        (replace(WELL, limit=None), "watch", "unknown", "Seats taken and limit are not measured here."),
        (replace(WELL, kv_ratio=0.95), "watch", "memory", "Limited by memory: the KV cache is 95 % full."),
    ],
)  # fmt: skip
def test_what_limits_and_how_bad_it_is(facts: Facts, severity: str, bottleneck: str, sentence: str) -> None:
    """Troubles come first, then the first rule that holds, each with its evidence."""
    found = diagnose(facts)
    assert (found.severity.word, found.bottleneck, found.sentence[: len(sentence)]) == (severity, bottleneck, sentence)


@pytest.mark.parametrize(
    ("changed", "lacks"),
    [
        ({"error_share": None}, "error share"),
        ({"error_share": NAN}, "error share"),
        ({"kv_ratio": None}, "KV cache in use"),
        ({"queued": None}, "requests that wait"),
        ({"classes": ()}, "classes"),
        ({"classes": (replace(NORMAL, ttft_p95_s=None),)}, "time to first token of normal"),
        ({"classes": (replace(NORMAL, ttft_p95_s=NAN),)}, "time to first token of normal"),
        ({"classes": (replace(NORMAL, ttft_slo_s=None, first_token_timeout_s=None),)}, "objectives of normal"),
        ({"classes": (replace(NORMAL, ttft_slo_s=NAN, first_token_timeout_s=NAN),)}, "objectives of normal"),
    ],
)
def test_what_is_not_known_is_not_favourable(changed: dict[str, object], lacks: str) -> None:
    """The load is described as measured, and so is what is missing; no ended request is no error share of 0."""
    found = diagnose(replace(WELL, **changed))  # type: ignore[arg-type]  # a table's values
    assert found.sentence.startswith("5 of 32 seats taken")
    assert found.sentence.endswith(f"Not known: {lacks}.")
    assert (found.severity, found.bottleneck) == (Severity.WATCH, Bottleneck.UNKNOWN)


def test_an_idle_class_adds_nothing() -> None:
    """A class without requests, or without an objective, does not prevent a favourable diagnosis."""
    idle = ClassFacts("batch", ttft_slo_s=INF, first_token_timeout_s=600.0, idle=True)
    assert is_favourable(diagnose(replace(WELL, classes=(NORMAL, idle))))
    assert is_favourable(diagnose(replace(WELL, classes=(replace(NORMAL, ttft_slo_s=INF, first_token_timeout_s=INF),))))


# ---------------------------------------------------------------------- the limits


@pytest.mark.parametrize(("share", "named"), [(JUST_BELOW, False), (0.01, False), (JUST_ABOVE, True), (INF, False)])
def test_errors_are_named_above_one_percent(share: float, named: bool) -> None:
    """Exactly 1 % is still allowed, as in the alert; what is no number is not known, which is not favourable either."""
    for facts in (replace(WELL, error_share=share), replace(WELL, classes=(replace(NORMAL, error_share=share),))):
        assert bool(symptoms(facts.measured())) is named
        assert ("without an answer" in diagnose(facts).sentence) is named
    assert is_favourable(diagnose(replace(WELL, error_share=share))) is (not named and math.isfinite(share))


@pytest.mark.parametrize(
    ("ttft_s", "late"), [(math.nextafter(2.0, 0), False), (2.0, False), (math.nextafter(2.0, 3), True)]
)
def test_first_tokens_are_late_above_their_objective(ttft_s: float, late: bool) -> None:
    """Exactly the objective is still in time, though near it; each class is held to its own."""
    facts = replace(WELL, classes=(replace(NORMAL, ttft_p95_s=ttft_s), ClassFacts("batch", 70.0, ttft_slo_s=600.0)))
    found = diagnose(facts)
    assert ("First tokens of class normal come too late" in found.sentence) is late
    assert found.severity is (Severity.DEGRADED if late else Severity.WATCH)
    assert "batch" not in found.sentence


@pytest.mark.parametrize(
    ("changed", "severity", "opening"),
    [
        ({"kv_ratio": math.nextafter(0.9, 0)}, "ok", "Far below capacity"),
        ({"kv_ratio": 0.9}, "watch", "Far below capacity"),
        ({"kv_ratio": math.nextafter(0.95, 0)}, "watch", "Far below capacity"),
        ({"kv_ratio": 0.95}, "watch", "Limited by memory"),
        ({"limit": 10, "seats_taken": 9}, "watch", "At capacity, without delay"),
        ({"limit": 10, "seats_taken": 8.99}, "ok", "Below capacity"),
        ({"limit": 10, "seats_taken": 5}, "ok", "Below capacity"),
        ({"limit": 10, "seats_taken": 4.99}, "ok", "Far below capacity"),
        ({"limit": 10, "seats_taken": 9, "queued": 1}, "watch", "Limited by the seats"),
        ({"limit": 10, "seats_taken": 8.99, "queued": 1}, "watch", "Requests wait although"),
        ({"limit": 10, "seats_taken": 9, "queued": 0.99}, "watch", "At capacity, without delay"),
        ({"classes": (replace(NORMAL, ttft_p95_s=1.6),)}, "ok", "Far below capacity"),
        ({"classes": (replace(NORMAL, ttft_p95_s=1.61),)}, "watch", "Far below capacity"),
        ({"classes": (replace(NORMAL, inter_token_p95_s=0.061),)}, "watch", "Far below capacity"),
    ],
)
def test_where_one_rule_ends_and_the_next_begins(changed: dict[str, object], severity: str, opening: str) -> None:
    """The figure at the limit, just above and just below."""
    found = diagnose(replace(WELL, **changed))  # type: ignore[arg-type]  # a table's values
    assert (found.severity.word, found.sentence[: len(opening)]) == (severity, opening)


@pytest.mark.parametrize(
    ("causes", "text"),
    [
        ({}, ""),
        ({"failed": 0.0}, ""),
        ({"failed": 0.2}, "main cause: failed"),
        ({"failed": 51.0, "shed": 49.0}, "main cause: failed"),
        ({"shed": 1.0, "failed": 1.0}, "main causes: failed (50 %), shed (50 %)"),
        ({"a": 4.0, "b": 3.0, "c": 3.0}, "main causes: a (40 %), b (30 %)"),
        ({"a": NAN, "b": 3.0}, "main cause: b"),
    ],
    ids=["none", "zero", "one", "more than half", "exactly half", "less than half", "no number"],
)
def test_most_of_them_is_more_than_half(causes: dict[str, float], text: str) -> None:
    """Else the two largest are named with their parts."""
    assert main_causes(causes) == text


# ---------------------------------------------------------------------- what would help

THROUGHPUT = Forecasted("throughput", 64, 0.97, ttft_p95_s=0.8, inter_token_p95_s=0.09)
HERE = Forecasted("balanced", 32, 0.8, ttft_p95_s=4.0, inter_token_p95_s=0.06)
TOO_MUCH = replace(FULL, error_share=0.2, refused_share=0.2, forecast=HERE)
FORECAST = "headway preset forecast"


def test_a_preset_is_proposed_with_its_forecast_and_its_price() -> None:
    """The one that serves most, what it would serve, and what gets worse with it."""
    worse = Forecasted("latency", 8, 0.3)
    best, *others = diagnose(replace(TOO_MUCH, forecasts=(worse, THROUGHPUT))).remedies
    assert best.action == (
        "the preset throughput, forecast to complete 97 % of the requests (the present preset: 80 %)"
    )
    assert best.cost == "forecast: time between tokens p95 90 ms instead of 60 ms"
    assert best.command == "headway preset use throughput --revert-after 10m"
    assert [one.action for one in others] == ["more seats: 64", "another instance of the server"]


def test_no_preset_is_proposed_that_serves_no_more() -> None:
    """Where the present one is forecast to serve as much; another one that serves less is no remedy at all."""
    here = replace(HERE, completed_ratio=0.96)
    for others in ((THROUGHPUT,), (Forecasted("serial", 1, 0.03),)):
        found = diagnose(replace(TOO_MUCH, error_share=0.05, forecast=here, forecasts=others))
        assert not any("preset" in one.action for one in found.remedies)


def test_objectives_count_before_what_is_served_at_all() -> None:
    """The preset in force sets the objectives: a preset that serves more, and all of it late, is not the better one."""
    good = Forecasted("interactive", 16, 0.75, keeps_objectives=True)
    first = diagnose(replace(TOO_MUCH, forecasts=(THROUGHPUT, good))).remedies[0]
    assert first.action.startswith(
        "the preset interactive, forecast to complete 75 % of the requests within the present objectives"
    )
    here = replace(HERE, keeps_objectives=True)
    assert not any(
        "preset" in one.action for one in diagnose(replace(TOO_MUCH, forecast=here, forecasts=(THROUGHPUT,))).remedies
    )


@pytest.mark.parametrize(
    "facts",
    [
        FULL,
        replace(FULL, forecasts=(THROUGHPUT,)),
        replace(FULL, forecast=HERE),
        replace(TOO_MUCH, forecast=replace(HERE, completed_ratio=1.0 + 1e-9), forecasts=(THROUGHPUT,), error_share=0.4),
    ],
    ids=["none", "none of the present one", "none of another one", "of other traffic"],
)
def test_without_forecasts_that_fit_the_way_to_them_is_named(facts: Facts) -> None:
    """Nothing is proposed that was not compared with the present preset under the present traffic."""
    assert diagnose(facts).remedies[0].command == FORECAST


@pytest.mark.parametrize(
    ("replaceable", "restarts_hung", "words"),
    [
        (True, True, "wait"),
        (True, False, "end the process EngineCore"),
        (None, None, "end"),
        (False, False, "start the"),
    ],
)
def test_a_silent_engine_is_replaced_only_where_the_server_can(
    replaceable: bool | None, restarts_hung: bool | None, words: str
) -> None:
    """And by itself only where the preset says so."""
    facts = replace(WELL, engine=EngineState.SILENT, replaceable=replaceable, restarts_hung=restarts_hung)
    assert diagnose(facts).remedies[0].action.startswith(words)


@pytest.mark.parametrize(
    ("why", "words"), [(NO_INSTANCE, "start the instances"), ("paused by an operator", "resume dispatch")]
)
def test_where_nothing_is_dispatched_the_remedy_is_for_the_reason(why: str, words: str) -> None:
    """A router without an instance needs one; one that is paused needs an order."""
    assert diagnose(replace(WELL, stopped=why)).remedies[0].action.startswith(words)


def test_batches_that_never_fill_are_named_where_requests_wait_for_them() -> None:
    """The reading guide: an average batch far below the cap means a window that is too short, or no traffic."""
    small = replace(WELL, strategy="dynamic", mean_batch=3.0)
    (one,) = diagnose(small).remedies
    assert one.action == "a longer batching.window_ms, or fewer seats: the mean batch is 3 of 32"
    assert diagnose(replace(small, strategy="continuous")).remedies == ()
