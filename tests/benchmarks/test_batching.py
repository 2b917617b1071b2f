"""Tests of ``make bench-batching``: its tables and goals follow from what was measured."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from statistics import mean, pstdev
from typing import Any

import answer_spread
import batching_parts
import equal_load
import pytest
from accepted import BATCHING
from batching import ARMS, LIGHT_S, PAGE, RESULTS, SIZES, Found, Size, _arrivals, goals, main, processors, tables
from report import as_markdown, judged
from serving.arms import without_bounds
from serving.client import Answer, backlog, open_loop
from virtual_time import on_virtual_time

from headway_simulator import lognormal
from headway_simulator.traffic.workload import Request


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
    )


def test_the_gain_is_against_one_at_a_time() -> None:
    """64 at once: 64 x 65 : 128 times the tokens, each of which takes 128 : 65 times as long."""
    reached = {(one.name, one.figure): one.reached for one in goals(found())}
    assert reached["N12", "64 at once : one at a time, tokens/s"] == pytest.approx(32.5)
    assert reached["N12", "the same, time per token"] == pytest.approx(128 / 65)
    assert reached["N5", "five together : one after another, time to the last"] == 0.3
    assert reached["N17", "continuous : one at a time, tokens/s"] == pytest.approx(32**0.5)


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


@pytest.mark.parametrize(
    ("name", "of_one", "module"),
    [("latency", equal_load.Pair, equal_load), ("spread", answer_spread.Rate, answer_spread)],
)
def test_what_the_page_says_of_a_part_is_in_its_file(name: str, of_one: Any, module: Any) -> None:
    """Its table and its goals are made of the figures that are kept: none of them is typed."""
    text = PAGE.read_text(encoding="utf-8").partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    kept = [json.loads(file.read_text(encoding="utf-8")) for file in RESULTS.glob(f"*-batching-{name}.json")]
    said = [(part, [of_one(**figures) for figures in part["figures"]]) for part in kept]
    shown = [
        batching_parts.Part(module.tables(found), tuple(module.goals(found)), [], part["others"], part["machine"])
        for part, found in said
    ]
    assert text.strip() in [
        f"{one.text}\n\n{as_markdown(judged(goal, BATCHING) for goal in one.goals)}" for one in shown
    ]


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
    together: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The published misses have one each; what is written is kept, too."""

    async def measure(*_: object) -> Found:
        return replace(published(), together=together)

    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr("batching.PAGE", page)
    monkeypatch.setattr("batching.RESULTS", tmp_path)
    monkeypatch.setattr("batching.started", lambda *_: nullcontext())
    monkeypatch.setattr("batching.measure", measure)
    monkeypatch.setattr("batching.describe", lambda _: {"gpu": "no card", "vllm": "0", "model": "none"})
    assert main(["--strict", "--write", "--only", "sizes"]) == code
    assert ("missed, and not accepted: N5 five together" in capsys.readouterr().out) is bool(code)
    (kept,) = json.loads((tmp_path / "no-card-batching-sizes.json").read_text())["figures"]
    assert (kept["together"], len(kept["sizes"]), kept["arms"][-1]["words"]) == (together, 7, "continuous, 32")
    assert "(vLLM 0, none, no card; other programs used 0% of the processors)" in page.read_text()


def test_the_misses_on_the_page_have_the_reasons_of_the_list() -> None:
    """A reason that was mended is mended there as well."""
    met = {(one.name, one.figure): one.met for one in goals(published())}
    assert {key for key in met if not met[key]} == BATCHING.keys() & met.keys()
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for (name, figure), reason in BATCHING.items():
        (line,) = [line for line in lines if line.startswith((f"| {name} | {figure} |", f"| {name} | {figure} ("))]
        assert line.endswith(f": {reason} |")


def test_the_light_arrivals_are_too_few_for_a_queue() -> None:
    """As the page says of its mean latencies: 24 s of them, and ten minutes, by the model of the queue; and the spread
    of uniform lengths."""
    rate_per_s, token_s = 0.85 * 28 / 32, 1 / 28
    few, many = (list(_arrivals(rate_per_s, until_s)) for until_s in (LIGHT_S, 600))
    assert len(few) == 11
    assert equal_load.expected_saving(few, token_s) == pytest.approx(0.07, abs=0.005)
    assert equal_load.expected_saving(many, token_s) == pytest.approx(0.73, abs=0.005)
    assert pstdev(range(8, 57)) / mean(range(8, 57)) == pytest.approx(0.44, abs=0.005)
    assert round(rate_per_s * 600) <= equal_load.REQUESTS


def test_the_model_of_the_queue_is_the_textbooks() -> None:
    """Of very many requests the mean wait is load x (1 + cv squared) : 2 (1 - load) services (Pollaczek, Khinchine)."""
    random = Random(1)
    draw = lognormal(32, 1.0, least=1, most=100_000).sampler(random)
    at_s, asked = 0.0, list[Request]()
    for _ in range(200_000):
        asked.append(Request(at_s := at_s + random.expovariate(0.5 / 32), "normal", 16, draw()))
    assert equal_load.expected_saving(asked, 1.0) == pytest.approx(1 - 1 / (1 + 0.5 * 2 / (2 * 0.5)), abs=0.02)


@pytest.mark.parametrize("seed", equal_load.SEEDS)
def test_each_seed_offers_the_load(seed: int) -> None:
    """Of what one at a time serves of just these answers; and it is enough for both figures of the texts to show."""
    asked = equal_load.arrivals(seed, equal_load.REQUESTS, 400.0)
    tokens = [one.output_tokens for one in asked]
    assert len(asked) == equal_load.REQUESTS
    assert sum(tokens) / 400 / asked[-1].at_s == pytest.approx(0.85, rel=0.12)
    assert pstdev(tokens) / mean(tokens) == pytest.approx(1.0, abs=0.2)
    assert equal_load.expected_saving(asked, 1 / 400) > 0.68
    slow = equal_load.arrivals(seed, equal_load.REQUESTS, 40.0)
    assert len(slow) < equal_load.REQUESTS
    assert max(one.at_s for one in slow) < equal_load.ARRIVALS_S


def answers(asked: Sequence[Request], latencies_s: Sequence[float | None]) -> list[Answer]:
    """Of these latencies; None for one that was cut."""
    found = []
    for request, latency_s in zip(asked, latencies_s, strict=True):
        end_s = None if latency_s is None else 100 + request.at_s + latency_s
        found.append(Answer("normal", "", 16, 100 + request.at_s, last_s=end_s, end="completed" if end_s else "cut"))
    return found


def test_a_pair_compares_the_mean_latencies() -> None:
    """The load is by the time that each request was served, not by the time that it waited; what was cut has waited."""
    asked = [Request(at_s, "normal", 16, 10) for at_s in (1.0, 2.0, 4.0)]
    alone, beside = answers(asked, [2.0, 3.0, 3.0]), answers(asked, [1.0, 1.0, 2.0])
    found = equal_load.pair(1, asked, alone, beside, per_s=5.0)
    assert (found.serial_s, found.continuous_s) == (pytest.approx(8 / 3), pytest.approx(4 / 3))
    assert (found.saved, found.load) == (pytest.approx(0.5), pytest.approx(2.0 * 3 / 4))
    assert found.expected == pytest.approx(1 - 2 / (8 / 3))
    cut = equal_load.pair(1, asked, answers(asked, [2.0, 3.0, None]), beside, per_s=5.0)
    assert cut.serial_s == pytest.approx((2 + 3 + equal_load.ARM_S - 4) / 3)
    reached = {one.name: (one.reached, one.met) for one in equal_load.goals([found, cut, cut])}
    assert reached == dict.fromkeys(("G30, N2", "N3"), (cut.saved, True))
    (note,) = {one.note for one in equal_load.goals([found])}
    assert note == "0.50 to 0.50 with 1 seeds; one at a time had a load of 1.50"
    assert "| 1 | 3 | 1.50 | 2.667 s | 1.333 s | 50% | 25% |" in equal_load.tables([found])


def test_a_padded_batch_is_as_long_as_its_longest() -> None:
    """And its answers are those of the same batch without a padding; the spread is the one that was asked for."""
    asked = answer_spread.answers_of(1.0, 1, 64)
    padded = answer_spread.longest(asked)
    for first in (0, 32):
        own = [one.output_tokens for one in asked[first : first + 32]]
        assert set(padded[first : first + 32]) == {max(own)}
    assert answer_spread.answers_of(1.0, 1, 64) == asked != answer_spread.answers_of(1.0, 2, 64)
    assert {one.output_tokens for one in answer_spread.answers_of(0.0, 1, 64)} == {answer_spread.MEAN_TOKENS}
    for cv in (0.5, 1.0):
        assert answer_spread.cv_of(answer_spread.answers_of(cv, 1, 20_000)) == pytest.approx(cv, rel=0.1)
    assert answer_spread.cv_of(answer_spread.answers_of(2.0, 1, 20_000)) > 1.6


@on_virtual_time
async def test_the_tokens_of_a_padding_do_not_count() -> None:
    """All answers of a batch end together, and what was asked for is counted; a seat never lacks a request."""
    asked, running, most = answer_spread.answers_of(1.0, 1, 128), set[int](), 0

    async def send(request: Request, answer: Answer) -> None:
        nonlocal most
        number = len(sent)
        sent.append(request.output_tokens)
        running.add(number)
        most = max(most, len(running))
        await asyncio.sleep(request.output_tokens)
        answer.tokens = request.output_tokens
        running.remove(number)

    sent = list[int]()
    got, took_s = await backlog(answer_spread.padding(send, answer_spread.longest(asked)), asked, 32, 1e6)
    assert sent == answer_spread.longest(asked)
    assert (most, len(got)) == (32, 128)
    first = sum(answer_spread.longest(asked)[place] for place in (0, 32, 64))  # the fourth batch is taken, and cut
    assert took_s == pytest.approx(first)
    assert answer_spread.wanted(got) == sum(one.output_tokens for one in asked[:96])


@on_virtual_time
async def test_a_backlog_is_over_in_time_and_fails_with_its_client() -> None:
    """On a slow machine it ends without the rest; an error is not waited for."""
    asked = answer_spread.answers_of(0.0, 1, 4)

    async def hangs(request: Request, answer: Answer) -> None:
        await asyncio.sleep(1e9)

    async def breaks(request: Request, answer: Answer) -> None:
        raise ValueError("a fault of the client")

    got, took_s = await backlog(hangs, asked, 2, 7.0)
    assert (len(got), took_s) == (2, pytest.approx(7.0))
    begin_s = asyncio.get_running_loop().time()
    with pytest.raises(ValueError, match="a fault of the client"):
        await backlog(breaks, asked, 2, 7.0)
    assert asyncio.get_running_loop().time() == begin_s


@on_virtual_time
async def test_arrivals_that_are_all_answered_are_over_at_once() -> None:
    """Without this an arm would last as long as the longest that it may take."""
    now_s = asyncio.get_running_loop().time

    async def send(request: Request, answer: Answer) -> None:
        await asyncio.sleep(2.0)

    begin_s = now_s()
    await open_loop(send, [Request(3.0, "normal", 16, 8)], 60.0, early=True)
    assert now_s() - begin_s == pytest.approx(5.0)
    await open_loop(send, [Request(3.0, "normal", 16, 8)], 4.0, early=True)
    assert now_s() - begin_s == pytest.approx(9.0)


def rates() -> list[answer_spread.Rate]:
    """Of two seeds: static batches lose with the spread, padded ones more."""
    per_s = {answer_spread.PADDED: 10.0, answer_spread.STATIC: 20.0, answer_spread.CONTINUOUS: 40.0}
    return [
        answer_spread.Rate(cv, seed, arm, (per_s | {answer_spread.SINGLE: 4.0})[arm] * seed, cv)
        for cv in answer_spread.CVS
        for seed in (1, 2)
        for arm in [*per_s, *([answer_spread.SINGLE] if cv == 1 else ())]
    ]


def test_the_spread_has_a_row_and_its_goals_a_ratio_of_each_seed() -> None:
    """The seeds are compared each by itself."""
    reached = {one.name: one.reached for one in answer_spread.goals(rates())}
    assert reached == {"N3": 10.0, "N4": 4.0, "G4": 2.0}
    text = answer_spread.tables(rates())
    assert "| 1 | 1.00 | 6 (4 to 8) | 15 (10 to 20) | 30 (20 to 40) | 60 (40 to 80) | 4.00 (4.00 to 4.00) | " in text
    assert "| 2 | 2.00 |  | 15 (10 to 20) | " in text


def part() -> batching_parts.Part:
    """One of these rates."""
    machine = {"gpu": "", "processor": "Intel(R) Xeon(R) Processor", "cores": 2, "vllm": "0", "model": "tiny"}
    found = rates()
    figures = [asdict(one) for one in found]
    return batching_parts.Part(answer_spread.tables(found), tuple(answer_spread.goals(found)), figures, 0.02, machine)


def test_a_part_that_is_written_is_kept_and_stands_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its figures by the name of the processor, which the table of the processors leaves out."""
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")

    async def play(name: str, say: object, *, short: bool) -> batching_parts.Part:
        assert (name, short) == ("spread", False)
        return part()

    monkeypatch.setattr("batching.play", play)
    monkeypatch.setattr("batching.PAGE", page)
    monkeypatch.setattr("batching.RESULTS", tmp_path)
    assert main(["--only", "spread", "--write", "--strict"]) == 0
    file = tmp_path / "intel-xeon-batching-spread.json"
    assert json.loads(file.read_text())["figures"][0]["tokens_per_s"] == 10.0
    text = file.with_suffix(".md").read_text()
    assert "| N4 | continuous : static, padded, 32 seats, answers of cv 1, tokens/s (4.00 to 4.00) |" in text
    assert "(vLLM 0, tiny, 2 cores, Intel(R) Xeon(R) Processor; other programs used 2% of the processors)" in text
    assert text.partition("\n\n")[2].strip() in page.read_text()
    assert processors(tmp_path).count("\n") == 1
    assert "3 of 3 figures reach their goal" in capsys.readouterr().out


def test_a_trial_has_no_results(capsys: pytest.CaptureFixture[str]) -> None:
    """A few requests would stand where hundreds belong."""
    for words in (["--short"], ["--short", "--only", "spread", "--write"]):
        with pytest.raises(SystemExit):
            main(words)
    assert "--short is a trial" in capsys.readouterr().err
