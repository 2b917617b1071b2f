"""Tests of ``make bench-batching``: its tables and goals follow from what was measured."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from statistics import mean, pstdev

import pytest
from accepted import BATCHING
from batching import ARMS, LIGHT_S, PAGE, SIZES, Found, Size, _arrivals, goals, main, processors, tables
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


def test_a_batch_size_and_a_strategy_are_suited_to_what_their_figures_bear() -> None:
    """A batch by the time that a token takes longer, a strategy by its mean latency and its tokens a second."""
    text = tables(found())
    assert "| 1 to 4 | 1.0 to 3.8 | 0 to 3 ms | dialogue |" in text
    assert "| 8 to 16 | 7.2 to 13.0 | 7 to 15 ms | an API for many |" in text
    assert "| 32 to 64 | 21.7 to 32.5 | 31 to 63 ms | an API for many |" in text
    assert "| 32 to 64 | 6.6 to 7.3 | 93 to 189 ms | offline work |" in tables(found(0.064 / 3, 0.003))
    arms = [(40, 1.0), (40, 9.0), (90, 9.0), (40, 1.1), (90, 1.1), (100, 1.2), (100, 1.0)]
    measured = [replace(arm, tokens_per_s=one[0], latency_s=one[1]) for arm, one in zip(ARMS, arms, strict=True)]
    lines = tables(replace(found(), arms=tuple(measured))).splitlines()
    suited = [next(line for line in lines if line.startswith(f"| {arm.words} |")).split(" | ")[-1] for arm in ARMS]
    expected = ["little load", "none", "offline work", "little load", "any", "any", "any"]
    assert [cell.removesuffix(" |") for cell in suited] == expected


def test_the_page_has_the_batches_of_each_processor() -> None:
    """As the files of the results have them."""
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition("<!-- processors -->")[2].partition("<!-- /processors -->")[0].strip() == processors()


def test_every_miss_on_the_page_has_its_reason() -> None:
    """Also what was measured before the reason was known."""
    misses = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if "**missed**" in line]
    assert misses
    assert [line for line in misses if " %): " not in line] == []


def published() -> Found:
    """A run like the one on the page: the same goals are missed."""
    figures = [(26, 1.55), (94, 3.14), (155, 3.16), (90, 1.66), (162, 1.57), (175, 1.62), (178, 1.41)]
    arms = [replace(arm, tokens_per_s=one[0], latency_s=one[1]) for arm, one in zip(ARMS, figures, strict=True)]
    return replace(found(0.0322, 0.00376), arms=tuple(arms))


@pytest.mark.parametrize(("together", "code"), [(0.3, 0), (0.9, 1)], ids=["as published", "five together are slow"])
def test_a_strict_run_fails_for_a_miss_without_a_reason_alone(
    together: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The published misses have one each."""

    async def measure(*_: object) -> Found:
        return replace(published(), together=together)

    monkeypatch.setattr("batching.started", lambda *_: nullcontext())
    monkeypatch.setattr("batching.measure", measure)
    monkeypatch.setattr("batching.describe", lambda _: {"gpu": "no card", "vllm": "0", "model": "none"})
    assert main(["--strict"]) == code
    assert ("missed, and not accepted: N5 five together" in capsys.readouterr().out) is bool(code)


def test_the_misses_on_the_page_have_the_reasons_of_the_list() -> None:
    """A reason that was mended is mended there as well."""
    missed = {(one.name, one.figure) for one in goals(published()) if not one.met}
    assert missed == BATCHING.keys()
    for (name, figure), reason in BATCHING.items():
        lines = PAGE.read_text(encoding="utf-8").splitlines()
        (line,) = [line for line in lines if line.startswith(f"| {name} | {figure} |")]
        assert line.endswith(f": {reason} |")


def test_the_reasons_of_the_list_hold() -> None:
    """Few requests, served one at a time by a model of the queue; and the spread of uniform lengths."""
    rate_per_s, token_s = 0.85 * 28 / 32, 1 / 28

    def saved(until_s: float) -> tuple[int, float]:
        free_s, alone_s, whole_s = 0.0, list[float](), list[float]()
        for request in _arrivals(rate_per_s, until_s):
            alone_s.append(request.output_tokens * token_s)
            free_s = max(free_s, request.at_s) + alone_s[-1]
            whole_s.append(free_s - request.at_s)
        return len(whole_s), 1 - mean(alone_s) / mean(whole_s)

    assert saved(LIGHT_S) == (11, pytest.approx(0.07, abs=0.005))
    assert saved(600)[1] == pytest.approx(0.73, abs=0.005)
    assert pstdev(range(8, 57)) / mean(range(8, 57)) == pytest.approx(0.44, abs=0.005)
