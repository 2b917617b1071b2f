"""Ladder, warm-up and limit in words: from the numbers alone, and with what the server says."""

from __future__ import annotations

import pytest

from headway.api.schema import (
    BatchStatus,
    EngineStatus,
    FallbackMove,
    FallbackState,
    OperatorLimit,
    PrefixStatus,
    StepsStatus,
    WarmupStatus,
)
from headway_dashboard.analysis.catalogue import engine_panels, panels
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Series
from headway_dashboard.analysis.server import descriptions, identity
from headway_dashboard.analysis.server.condition import Condition, State
from headway_dashboard.analysis.server.status import NO_LADDER, Status
from headway_dashboard.sources import Health, SourceReading
from headway_policies.engine.warmup import Stage
from headway_policies.fallback.rungs import Rung, Trigger
from headway_policies.limits.governor import WHYS
from headway_policies.preset import SeatBounds

TIMES_S = (1000.0, 1002.0, 1004.0)
NOW = Condition(State.LIVE, "")


def reading(*answers: tuple[Expression, dict[tuple[str, ...], list[float | None]]]) -> SourceReading:
    """A reading with these answers."""
    series = {expression: Series(TIMES_S, lines) for expression, lines in answers}
    return SourceReading(series, Health(1004.0), 2.0, "test", range_s=4.0, end_s=1004.0)


def test_plain_vllm_is_named_with_what_works() -> None:
    """A page full of gaps would look like a broken server; one with Headway says nothing."""
    engine = (identity.MODEL, {("tiny",): [None, 0.0, 1.0]})
    (found,) = descriptions.notices_of(reading(engine), Status(), NOW)
    assert "plain vLLM without Headway" in found.title
    assert "KV cache in use" in found.text
    headway = (identity.BUILD, {("0.1.0", "cuda"): [None, None, 1.0]})
    assert descriptions.notices_of(reading(engine, headway), Status(), NOW) == []
    assert descriptions.notices_of(reading(), Status(), NOW) == []


def test_every_rung_has_words() -> None:
    """A rung that is added to the policies fails here, not on the page."""
    assert list(descriptions.RUNGS) == [rung.word for rung in Rung]
    assert not any("_" in descriptions.trigger_words(trigger) for trigger in Trigger)
    assert {*descriptions.STAGES} == {*Stage}


@pytest.mark.parametrize(
    ("ladder", "by_numbers", "words"),
    [
        (NO_LADDER, "", ""),
        (NO_LADDER, "shed", "is at **shed**: whole classes are refused."),
        (FallbackState(rung="normal"), "", "is at **normal**: no request is degraded."),
        (
            FallbackState(rung="divert", trigger="engine_down", in_force=["divert"]),
            "",
            "is at **divert** because of an engine that is down: another model answers.",
        ),
        (
            FallbackState(rung="bypass", ordered="bypass", trigger="operator", in_force=["cap", "bypass"]),
            "",
            "by an operator's command, until it is set to automatic: answers are shorter, a few requests are "
            "dispatched",
        ),
    ],
    ids=["unknown", "numbers only", "normal", "by itself", "ordered"],
)
def test_ladder_words(ladder: FallbackState, by_numbers: str, words: str) -> None:
    """The rung, the actor and the conditions; only what is in force, not all the rungs below it."""
    assert words in descriptions.ladder_words(ladder, by_numbers)
    assert bool(words) == bool(descriptions.ladder_words(ladder, by_numbers))


def test_what_an_operator_may_order() -> None:
    """Only rungs that would change something, beside the two that always do; an order takes all up to its rung."""
    ladder = FallbackState(rung="normal", usable=["cap", "shed"])
    assert descriptions.settable(ladder) == ("normal", "cap", "shed", "pause")
    assert descriptions.rung_effect(ladder, "shed") == "answers are shorter, whole classes are refused"
    assert descriptions.rung_effect(ladder, "normal") == "no request is degraded"
    assert descriptions.settable(NO_LADDER) == tuple(descriptions.RUNGS)
    assert descriptions.settable(FallbackState(rung="normal")) == ("normal", "pause")


def test_steps_and_moves() -> None:
    """Only what happened, the mildest rung first; the moves as the server reports them, ten at most."""
    counted = reading(
        (
            engine_panels.RUNG_STEPS,
            {("shed", "queue_age"): [0, 1, 2], ("cap", "kv_pressure"): [1, 1, 1], ("pause", "errors"): [0, 0, 0]},
        )
    )
    assert descriptions.step_rows(counted) == [
        {"To": "cap", "Why": "a full KV cache", "Times": "1"},
        {"To": "shed", "Why": "the age of the queue", "Times": "2"},
    ]
    move = FallbackMove(time="2026-11-21T10:11:12.345Z", before="normal", after="cap", trigger="operator")
    rows = descriptions.move_rows(FallbackState(rung="cap", moves=[move] * 30))
    assert len(rows) == 10
    assert rows[0] == {"When (UTC)": "2026-11-21 10:11:12", "Move": "normal → cap", "Why": "an operator's command"}


def test_a_batch_has_a_row_with_its_lines_and_its_end() -> None:
    """The time left is told as far as a window may reach."""
    batch = BatchStatus(
        id="batch_1", tenant="acme", state="in_progress", completed=1200, failed=3, total=5000,
        expires="2026-11-22T10:11:12Z", late=True, left_s=8100.0,
    )  # fmt: skip
    assert descriptions.batch_rows([batch]) == [
        {
            "Tenant": "acme", "State": "in progress, late", "Lines done": "1,200 of 5,000", "Failed": "3",
            "Time left": "2\u00a0h 15\u00a0min", "Window ends (UTC)": "2026-11-22 10:11:12", "Batch": "batch_1",
        }
    ]  # fmt: skip
    others = [batch.model_copy(update={"left_s": left_s, "late": False, "total": 0}) for left_s in (None, 1e9)]
    assert [(row["State"], row["Lines done"], row["Time left"]) for row in descriptions.batch_rows(others)] == [
        ("in progress", "—", "—"), ("in progress", "—", "over 14 d"),
    ]  # fmt: skip


def test_the_warm_up_from_the_numbers_and_from_the_server() -> None:
    """Without a token the last round of each stage; with one every round, and what the engine refuses."""
    numbers = reading((engine_panels.WARMUP_S, {("batch",): [2, 2, 1.5], ("single",): [0.4] * 3}))
    assert [(row["Stage"], row["Took"]) for row in descriptions.warmup_rows(numbers, WarmupStatus())] == [
        ("one request alone", "400\u00a0ms"),
        ("full batches", "1.5\u00a0s"),
    ]
    reported = WarmupStatus(
        state="done", stages={"single": [0.4], "batch": [2.0, 1.5]}, refused=["logprobs"], settled=True
    )
    assert [tuple(row.values()) for row in descriptions.warmup_rows(numbers, reported)] == [
        ("one request alone", "1", "400\u00a0ms"),
        ("log probabilities", "0", "left out: warm already, or not supported"),
        ("full batches", "2", "2\u00a0s → 1.5\u00a0s"),
    ]


@pytest.mark.parametrize(
    ("reported", "words"),
    [
        (WarmupStatus(), ""),
        (
            WarmupStatus(state="done", settled=True, batch_size=8),
            "took about the same time. A full batch has 8 requests.",
        ),
        (WarmupStatus(state="done"), "the times of the last two batches still differed"),
        (WarmupStatus(state="skipped"), "Skipped"),
        (WarmupStatus(state="failed", reason="batch: boom", attempt=3), "Failed. Attempt 3. Batch: boom."),
    ],
)
def test_warmup_words(reported: WarmupStatus, words: str) -> None:
    """How it ended, in a sentence."""
    assert words in descriptions.warmup_words(reported)


@pytest.mark.parametrize("why", [*WHYS, "", "new"])
def test_the_limit_says_why(why: str) -> None:
    """Each word of the policies has its meaning; an unknown one is shown as it is."""
    numbers = reading((panels.LIMIT, {(): [32] * 3}), (panels.CEILING, {(): [64] * 3}))
    text = descriptions.limit_words(numbers, Status(limit_reason=why))
    assert text.startswith("live **32** · proposed **—** · ceiling **64**")
    assert text.endswith(WHYS.get(why, why) or "**64**")


@pytest.mark.parametrize(
    ("left_s", "end"), [(None, "until the next switch"), (300.0, "for another 5\u00a0min")], ids=["switch", "time"]
)
def test_an_ordered_limit_is_said_with_its_end(left_s: float | None, end: str) -> None:
    """In place of the policy's reason: the policy has no say while it holds."""
    status = Status(limit_reason="slo", operator_limit=OperatorLimit(seats=12, left_s=left_s))
    text = descriptions.limit_words(reading((panels.LIMIT, {(): [12] * 3})), status)
    assert text.endswith(f"12 seats set in place of the preset's, {end}")


def test_the_seats_that_the_memory_holds_are_said() -> None:
    """Once the engine has said how large its KV cache is, and with the knee beside it."""
    assert descriptions.bound_words(Status()) == ""
    words = descriptions.bound_words(Status(seat_bounds=SeatBounds(18, 1000.0)))
    assert words == "The KV space has room for 18 sequences of 1000 tokens beside its reserve, a typical length."
    assert "a typical length; beyond 12 seats" in descriptions.bound_words(
        Status(seat_bounds=SeatBounds(18, 1000.0, knee_seats=12))
    )


def test_the_prefix_cache_is_described_where_the_order_uses_it() -> None:
    """The tokens found stand beside those expected; a dash before there are enough requests."""
    assert descriptions.prefix_words(Status()) == ""
    known = descriptions.prefix_words(Status(prefix=PrefixStatus(hit_ratio=0.61, expected_ratio=0.64)))
    assert "found **61\u00a0%** of the prompt tokens" in known
    assert "64\u00a0% was expected" in known
    assert "**—**" in descriptions.prefix_words(Status(prefix=PrefixStatus()))


def test_what_prompts_took_of_the_steps_is_described_while_steps_are_planned() -> None:
    """The share beside its target, and the longest hold; nothing where no step was planned lately."""
    assert descriptions.step_words(Status()) == ""
    steps = StepsStatus(
        planned=40, pressed=0, held=30, prompt_tokens=1900, decode_tokens=320, budget_tokens=2300,
        total_s=4.0, prefill_s=1.5, target_s=1.6,
    )  # fmt: skip
    assert descriptions.step_words(Status(engine=EngineStatus(steps=steps))) == ""
    lately = steps.model_copy(update={"prefill_share": 0.38, "target_share": 0.4, "longest_held_s": 2.5})
    words = descriptions.step_words(Status(engine=EngineStatus(steps=lately)))
    assert "took **38\u00a0%** of the time of their steps (target 40\u00a0%)" in words
    assert words.endswith("in 30 of 40 steps, the longest for 2.5\u00a0s.")


def test_tiles_of_a_server_that_is_away_are_named_as_old() -> None:
    """Counts stay with their age; the engine's present state is unknown."""
    numbers = reading((panels.ENGINE_STATE, {("up",): [1] * 3}), (panels.DEATHS, {(): [2] * 3}))
    tiles = {one.label: one for one in descriptions.server_tiles(numbers, Status(), NOW)}
    assert (tiles["Engine"].value, tiles["Engine deaths"].value, tiles["Hangs"].value) == ("up", "2", "—")
    away = {one.label: one for one in descriptions.server_tiles(numbers, Status(), Condition(State.DOWN, ""))}
    assert away["Engine"].value == "—"
    assert (away["Engine deaths"].value, away["Engine deaths"].note) == ("2", "last known")


def test_old_numbers_raise_no_notice() -> None:
    """While the server is unreachable, the state of its engine is unknown."""
    numbers = reading((panels.ENGINE_STATE, {("silent",): [1] * 3}))
    assert descriptions.notices_of(numbers, Status(), NOW)
    assert descriptions.notices_of(numbers, Status(), Condition(State.STALE, "")) == []
