"""Tests of the figures in the documents: what is said beside the tables is what the tables and the results say."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from running_server import ROOT
from serving.figures import BlockFigures
from serving.report import Report, report
from serving.results import Results
from serving.step_report import step_report

MEASURED = "deploy/site/docs/measured/index.md"
Blocks = dict[tuple[float, str, int], BlockFigures]


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _kept(name: str) -> Results:
    return Results.read(ROOT / "tests" / "benchmarks" / "results" / f"{name}.json")


@pytest.mark.parametrize(("name", "reported"), [("short", report), ("step", step_report)])
def test_the_tables_of_make_bench_are_what_its_results_say(name: str, reported: Callable[[Results], Report]) -> None:
    """The page has the very tables that are made of the kept results: no figure of them is typed."""
    found = reported(_kept(name))
    assert found.table in _read(MEASURED), f'run: make bench ARGS="--only {name} --report --write"'


def test_the_figures_of_what_headway_does_not_do_are_those_of_the_measured_runs() -> None:
    """The README's shares at 2.5 times the load, and the first tokens of chat beside long prompts."""
    page, measured = " ".join(_read("README.md").split()), _read(MEASURED)
    (shares,) = re.findall(
        r"At 2\.5 times that capacity (\d+) % of `realtime` completes, but only (\d+) % within", page
    )
    (row,) = re.findall(r"^\| 2\.5 \| Headway, balanced, as it comes \| (.*) \|$", measured, re.MULTILINE)
    assert [row.split(" | ")[at] for at in (4, 2)] == [f"{share}%" for share in shares]
    (p99_s,) = re.findall(r"at 0\.7 of that capacity too \(p99 ([\d.]+) s : ([\d.]+) s\)", page)
    chat = measured.split("at 0.7 times the load")[1].split("\n\n")[1]
    for arm, said in zip(("Headway, balanced", "vLLM"), p99_s, strict=True):
        (row,) = re.findall(rf"^\| {arm}, as it comes \| (.*) \|$", chat, re.MULTILINE)
        assert row.split(" | ")[2].endswith(f" / {said} s")


def test_the_figures_on_the_first_page_are_those_of_the_measured_run() -> None:
    """The shares with Headway, with vLLM alone and with its best queue bound, in the README and in the table."""
    page = " ".join(_read("README.md").split())
    (said,) = re.findall(r"At ([\d.]+) times .*?, (\d+ ?%) of .*? for (\d+ %); .*? for (\d+ %)\. .*?completes "
                         r"(\d+ %), and vLLM with that bound (\d+ %)", page)  # fmt: skip
    load, *shares = (one.replace(" ", "") for one in said)
    row = rf"^\| {re.escape(load)} \| (.*?) \| (\d+%)[^|]* \| [^|]+ \| (\d+%)"
    rows = re.findall(row, _read(MEASURED), re.MULTILINE)
    table = {arm: (goodput, realtime) for arm, goodput, realtime in rows}
    headway = table["Headway, balanced, as it comes"]
    bounds = [row for arm, row in table.items() if "--max-num-queued-reqs" in arm or arm.startswith("the same")]
    bound = max(bounds, key=lambda row: int(row[0].rstrip("%")))
    assert shares == [headway[1], table["vLLM, as it comes"][1], bound[1], headway[0], bound[0]]


def test_the_gain_by_batches_on_the_first_page_is_that_of_the_table() -> None:
    """Continuous batches, and static ones, against one request at a time."""
    page = " ".join(_read("README.md").split())
    said = re.findall(r"Continuous batches give ([\d.]+) times .*? static batches of 32 give ([\d.]+) times", page)
    table = _read(MEASURED).partition("<!-- batching -->")[2].partition("<!-- /batching -->")[0]
    gains = dict(re.findall(r"^\| (\w+, 32) \| \d+ \| ([\d.]+) \|", table, re.MULTILINE))
    assert said == [(gains["continuous, 32"], gains["static, 32"])]


def _blocks(kept: Results) -> Blocks:
    """By load, arm and round."""
    return {(key.load, key.arm, key.round): figures for key, figures in kept.blocks.items()}


def _good(figures: BlockFigures, name: str = "realtime") -> str:
    return f"{figures.classes[name].good} of {figures.classes[name].offered}"


def test_the_figures_of_the_slow_engine_are_those_of_its_first_run() -> None:
    """What is possible, the requests within both objectives, and the best cap of the grid."""
    page, kept = " ".join(_read(MEASURED).split()), _kept("amd-epyc-float32")
    found = _blocks(kept)
    plain, own, runs = (
        found[0.9, "plain", 0],
        found[0.9, "default", 0],
        [found[2.5, "default", turn] for turn in (0, 1)],
    )
    caps = [one for (load, arm, _), one in found.items() if load == 2.5 and arm.startswith("cap")]
    cap, possible = (
        max(caps, key=lambda one: one.of_ceiling),
        " and ".join(f"{100 * one.of_ceiling:.0f} %" for one in runs),
    )
    assert kept.constants is not None
    for arm in ("plain", "default"):
        assert found[0.5, arm, 0].attained("all") == 1
    for words in (
        f"takes {1000 * kept.constants.model.base_s:.0f} ms a token alone",
        f"at 0.9 {_good(own, 'all')} and {_good(plain, 'all')}",
        f"{_good(runs[0])} requests keep both objectives in one run and {_good(runs[1])} in another",
        f"({100 * cap.of_ceiling:.0f} % of the model's ceiling; Headway {possible}), but "
        f"{100 * (cap.attained('realtime') or 0):.0f} % of `realtime`",
    ):
        assert words in page


def test_the_figures_of_the_slow_engine_are_those_of_its_later_run() -> None:
    """Where the pace of the engine under load differs from the pace by which it is judged."""
    page, kept = " ".join(_read(MEASURED).split()), _kept("amd-epyc-float32-overload")
    found = _blocks(kept)
    own, cap = (sum(found[1.5, arm, turn].good_per_s for turn in (0, 1)) for arm in ("default", "cap"))
    first, slow = (found[2.5, "default", turn] for turn in (0, 1))
    assert kept.constants is not None
    assert {found[1.5, "default", turn].attained("realtime") for turn in (0, 1)} == {1}
    for words in (
        f"with {own / cap:.2f} of the goodput of the best cap",
        f"{_good(first)} and {_good(slow)} requests keep both",
        f"tokens took {1000 * (slow.classes['all'].inter_token_s[0] or 0):.0f} ms",
        f"against an objective of {1000 * kept.constants.slo.inter_token_s * slow.pace:.0f} ms",
    ):
        assert words in page


def test_the_gain_by_a_group_for_long_prompts_is_that_of_the_simulated_fleet() -> None:
    """The shares within both objectives, and what the first token over all becomes."""
    page = " ".join(_read("deploy/site/docs/how-to/route.md").split())
    row = r"W8 at load 0\.8, .*?\(([\d.]+)% and ([\d.]+)%; TTFT p99 (\d+) and (\d+) ms\)"
    ((apart, mixed, apart_ms, mixed_ms),) = re.findall(row, _read("deploy/site/docs/measured/fleet.md"))
    assert f"{apart} % within both objectives instead of {mixed} % at 0.8 of the capacity" in page
    assert f"rises from {int(mixed_ms) / 1000:.1f} to {int(apart_ms) / 1000:.1f} s" in page


def _reached(page: str, goal: str, figure: str) -> list[float]:
    """What the figures of this goal reached whose names begin like this."""
    row = rf"^\| [^|]*\b{goal}\b[^|]* \| {figure}[^|]* \| [^|]* \| ([\d.]+) \|"
    return [float(found) for found in re.findall(row, _read(f"deploy/site/docs/measured/{page}.md"), re.MULTILINE)]


def test_the_figures_in_the_states_of_the_rows_are_those_of_the_pages() -> None:
    """Of the texts' claims that are missed, or reached on one model alone."""
    states = dict(
        re.findall(r"^\| (N\d+) \| [^|]* \| ([^|]*) \|", _read("deploy/site/docs/measured/rows.md"), re.MULTILINE)
    )
    once, spread = _reached("index", "N3", "continuous : one at a time")
    (saved,) = _reached("index", "N3", "mean latency saved")
    assert (
        f"({once:.1f} times); the tiny model reaches {spread:.1f} times, and saves {100 * saved:.0f} %" in states["N3"]
    )
    aware = _reached("policies", "G6", r"KV of \d+ tokens: tokens/s, memory-aware : 256 seats")
    words = ("no", "one", "two", "three", "all")
    assert f"{words[sum(one >= 1.08 for one in aware)]} of {len(aware)} caches".replace("4", "four") in states["N6"]
    best = _reached("engine", "G6", r"real engine, KV of \d+ tokens: tokens/s, memory-aware : best")
    assert f"at {best[0]:.2f} and {best[1]:.2f} of the tokens/s" in states["N7"]
    assert {round(5 * (1 - one)) for one in _reached("engine", "N7", "real engine")} == {1}  # a fifth shorter
    processors = _read(MEASURED).partition("<!-- processors -->")[2].partition("<!-- /processors -->")[0]
    assert ("eleven" in states["N12"]) is (processors.count(".json`") == 11)
