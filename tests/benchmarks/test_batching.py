"""Tests of ``make bench-batching``: its tables and goals follow from what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from batching import ARMS, SIZES, Found, Size, goals, tables
from serving.arms import without_bounds


def found(base_s: float = 0.064, seat_s: float = 0.001) -> Found:
    """A run on an engine with these costs."""
    sizes = []
    for size in SIZES:
        token_s = base_s + seat_s * size
        sizes.append(Size(size, size / token_s, token_s, size / token_s / 2))
    arms = [
        replace(arm, tokens_per_s=20.0 * arm.batching.seats**0.5, latency_s=8.0 / (1 + place))
        for place, arm in enumerate(ARMS)
    ]
    return Found(
        sizes=tuple(sizes),
        contexts=((16, 0.07), (1024, 0.09)),
        together=0.3,
        one_by_one=(10.0, 6.0),
        five=(3.0, 2.9),
        arms=tuple(arms),
        others=0.0,
        where="2 cores",
    )


def test_the_gain_is_against_one_at_a_time() -> None:
    """64 at once: 64 x 65 : 128 times the tokens, each of which takes 128 : 65 times as long."""
    reached = {(one.name, one.figure): one.reached for one in goals(found())}
    assert reached["N12", "64 at once : one at a time, tokens/s"] == pytest.approx(32.5)
    assert reached["N12", "the same, time per token"] == pytest.approx(128 / 65)
    assert reached["N5", "five together : one after another, time to the last"] == 0.3
    assert reached["N2, N3", "mean latency saved at equal load, continuous against one at a time"] > 0.8


@pytest.mark.parametrize(("base_s", "met"), [(0.064, True), (0.0001, False)], ids=["shared cost", "no shared cost"])
def test_an_engine_whose_steps_share_nothing_misses_the_goals(base_s: float, met: bool) -> None:
    """Where every sequence costs the same there is nothing to gain."""
    verdicts = [one.met for one in goals(found(base_s)) if one.name in ("N1", "N12")]
    assert all(verdicts) is met


def test_each_size_and_each_strategy_has_a_row() -> None:
    """With the texts' three bands between them."""
    text = tables(found())
    for words in (
        *(f"| {size} |" for size in SIZES),
        "| 1 to 4 |",
        "| 32 to 64 |",
        *(f"| {arm.words} |" for arm in ARMS),
        "(2 cores)",
    ):
        assert words in text
    assert "| 64 | 500 | 32.5 | 128 ms | +63 ms | 250 |" in text


def test_an_arm_refuses_nothing() -> None:
    """Else a slow strategy would look quick: what it refuses has no latency."""
    for arm in ARMS:
        preset = without_bounds(arm.batching)
        assert preset.batching == arm.batching
        assert all(one.ttft_slo_s is None and (one.queue_timeout_s or 0) >= 600 for one in preset.classes.values())
