"""``headway simulate``: tables, files and pages from a model, and one line for every error."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from pathlib import Path

import pytest

from headway_simulator.traffic.workload import WORKLOADS
from headway_tools.cli import main
from headway_tools.console import install_command

SHORT = ["simulate", "--duration", "20"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A hundred requests, one a second."""
    file = tmp_path / "day.csv"
    rows = "".join(f"{second},{600 + second},160\n" for second in range(100))
    file.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}")
    return file


def test_presets_are_compared_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """A column for each; workload, engine and objectives above it."""
    assert main([*SHORT, "--preset", "latency", "--preset", "throughput", "--engine-alone"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("W1, chat")
    assert out[0].endswith("seed 1")
    assert out[1].startswith("engine: 29 ms a step + 1.06 ms a sequence + 0.7 ms a prompt token")
    alike = r"objectives for all alike, first token and between tokens: "
    assert re.fullmatch(alike + r"realtime 3\d\d ms, 75.1 ms; normal 5\d\d ms, 75.1 ms", out[2])
    assert out[3] == "  throughput states its own: realtime 2,000 ms, 301 ms; normal 10,000 ms, 601 ms"
    assert out[4] == "seats of latency: starts at 8, up to the engine's 256"
    assert out[5] == "seats of throughput: starts at 64, up to the engine's 256"
    assert out[7].split() == ["latency", "throughput", "engine", "alone"]
    assert any(line.startswith("goodput, requests/s") and len(line.split()) == 5 for line in out)


def test_what_the_model_leaves_out_of_a_preset_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, by its name: the comparison would be taken for one with it."""
    assert main([*SHORT, "--preset", "balanced", "--json"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("headway: balanced: shorter answers, shedding, ")
    assert "([fallback] queue_age_s, enter_s, leave_s, error_ratio, engine_down; [classes] " in line


def test_the_table_explains_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """The ceiling is explained, and why fewer requests are offered than arrive: the numbers are those of the table."""
    assert main([*SHORT, "--preset", "balanced"]) == 0
    out = capsys.readouterr().out
    head, _, after = out.partition("\n\n")
    ceiling = re.search(r"ceiling of ([\d.]+) requests/s: (\d+) requests", head)
    assert ceiling is not None
    assert f"reach on this engine ({ceiling[1]}/s)" in after
    (warmup_s, arrived) = re.findall(
        r"requests after the first ([\d.]+) s, in which the engine fills; (\d+) in all", after
    )[0]
    (offered,) = re.findall(r"^  offered +(\d+)$", after, re.MULTILINE)[:1]
    assert arrived == ceiling[2]
    assert int(offered) < int(arrived)
    assert float(warmup_s) > 0
    assert main(["simulate", "--workload", "W4", "--preset", "balanced"]) == 0
    assert "ceiling" not in capsys.readouterr().out


def test_the_same_words_give_the_same_answer_and_another_seed_another(capsys: pytest.CaptureFixture[str]) -> None:
    """To the last letter."""
    answers = []
    for seed in ("5", "5", "6"):
        assert main([*SHORT, "--seed", seed, "--json"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1] != answers[2]


def test_what_was_given_is_said_to_the_last_digit(capsys: pytest.CaptureFixture[str]) -> None:
    """Objectives, constants and load are settings: none of them is rounded."""
    words = ["--slo-ttft-ms", "1000.25", "--slo-inter-token-ms", "75.0000001", "--load", "1.2345678"]
    assert main([*SHORT, "--step-ms", "29.123456", "--seat-ms", "1.0654321", *words]) == 0
    out = capsys.readouterr().out
    assert "engine: 29.123456 ms a step + 1.0654321 ms a sequence" in out
    assert "first token within 1000.25 ms, 75.0000001 ms between tokens" in out
    assert "; 1.2345678 times the ceiling" in out


def test_each_preset_is_judged_by_the_same_objectives_and_by_its_own_beside(capsys: pytest.CaptureFixture[str]) -> None:
    """A longer objective is easier to keep: goodput and ceiling are the same for all, its own are in rows of their own.
    The engine alone has none."""
    assert main([*SHORT, "--preset", "latency", "--preset", "throughput", "--engine-alone"]) == 0
    rows = own_rows(capsys.readouterr().out)
    assert len(rows) == 6  # every class and two classes, of the offered and of the admitted
    assert all(row[-1] == "-" and row[0] != "-" != row[1] for row in rows)
    assert main([*SHORT, "--preset", "throughput", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    alone_s = 0.029 + 0.00106
    assert {name: (one["ttft_s"], one["inter_token_s"]) for name, one in run["own"].items()} == {
        "realtime": (2.0, pytest.approx(10 * alone_s)),
        "normal": (10.0, pytest.approx(20 * alone_s)),
    }
    assert run["classes"]["normal"]["own_attained_ratio"] >= run["classes"]["normal"]["attained_ratio"]


@pytest.mark.parametrize("flag", ["--slo-ttft-ms", "--slo-inter-token-ms"])
def test_an_objective_that_is_given_judges_all_alone(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where it is the usual one."""
    usual = {"--slo-ttft-ms": "1000", "--slo-inter-token-ms": "75"}[flag]
    assert main([*SHORT, flag, usual]) == 0
    out = capsys.readouterr().out
    assert "objectives for all alike: first token within 1000 ms, 75 ms between tokens\n" in out
    assert "states its own" not in out
    assert own_rows(out) == []


def test_presets_without_objectives_of_their_own_have_no_rows_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor has a closed batch, of which nothing is due."""
    assert main([*SHORT, "--strategies", "8"]) == 0
    assert main(["simulate", "--workload", "W4", "--preset", "balanced"]) == 0
    assert own_rows(capsys.readouterr().out) == []


def own_rows(out: str) -> list[list[str]]:
    """The cells of the rows about a preset's own objectives."""
    return [line.split()[6:] for line in out.splitlines() if line.startswith("  by its own objectives,")]


def test_json_holds_the_figures_of_every_class(capsys: pytest.CaptureFixture[str]) -> None:
    """For scripts."""
    assert main([*SHORT, "--preset", "balanced", "--slo-ttft-ms", "500", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["slo"] == {"ttft_s": 0.5, "inter_token_s": 0.075}
    (run,) = answer["runs"]
    assert list(run["classes"]) == ["all", "realtime", "normal"]
    parts = run["classes"]
    assert parts["all"]["offered"] == parts["realtime"]["offered"] + parts["normal"]["offered"] > 0


def test_a_csv_file_and_a_page_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page has the table and all charts, the timeline of the strategies among them."""
    pytest.importorskip("plotly")
    table, page = tmp_path / "out.csv", tmp_path / "out.html"
    assert main([*SHORT, "--preset", "latency", "--csv", str(table), "--html", str(page)]) == 0
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["class"] for row in rows] == ["all", "realtime", "normal"]
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    for heading in ("Goodput", "First token", "Between tokens", "Over time", "Four seats, seven sequences"):
        assert f"<h2>{heading}</h2>" in text
    assert "<td>" in text


def test_a_trace_is_replayed_at_the_load_asked_for(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lengths divided by 16, time scaled to fit."""
    assert main(["simulate", "--trace", str(trace), "--scale-lengths", "0.0625", "--load", "0.5"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("day.csv; 0.50 times the ceiling of")
    assert "100 requests" in first
    assert "prompts mean 41, answers mean 10 tokens" in first


def test_a_trace_is_cut_and_stretched(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twice as slow, the first 60 s."""
    words = ["simulate", "--trace", str(trace), "--scale-time", "2", "--duration", "60"]
    assert main(words) == 0
    assert "30 requests in 60 s" in capsys.readouterr().out


def test_strategies_are_compared_on_a_closed_batch(capsys: pytest.CaptureFixture[str]) -> None:
    """Five columns and the gain of each over serial; without a first-token objective."""
    assert main(["simulate", "--strategies", "8", "--workload", "W4-fixed", "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["name"] for run in runs] == ["serial", "padded-8", "static-8", "dynamic-8", "continuous-8"]
    assert main(["simulate", "--strategies", "8", "--workload", "W4-fixed"]) == 0
    out = capsys.readouterr().out
    gains = next(line for line in out.splitlines() if line.strip().startswith("times the first")).split()[3:]
    assert gains[0] == "1.00"
    assert all(float(gain) > 4 for gain in gains[1:])
    assert "goodput, requests/s" not in out


def test_two_presets_of_one_name_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a copy of a bundled one has: one of them would be left out. The same preset twice is one."""
    own = tmp_path / "mine.toml"
    own.write_text('name = "balanced"\nextends = "balanced"\n[batching]\nseats = 2\n', encoding="utf-8")
    assert main([*SHORT, "--preset", "balanced", "--preset", str(own)]) == 2
    assert "two presets are named 'balanced': give one of the files another name" in capsys.readouterr().err
    assert main([*SHORT, "--preset", "balanced", "--preset", "balanced"]) == 0


def test_a_sweep_that_keeps_no_objective_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """No number of seats is proposed."""
    assert main(["simulate", "--sweep", "--step-ms", "200"]) == 0
    assert "No number of seats has tokens whose 95th percentile stays within 75 ms." in capsys.readouterr().out
    assert main(["simulate", "--sweep", "--step-ms", "200", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["most_within"] is None


def test_a_class_without_objectives_misses_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the others state; the report names it."""
    preset, trace = tmp_path / "nob.toml", tmp_path / "t.csv"
    preset.write_text(
        'name = "nob"\ndefault_class = "chat"\n[batching]\nseats = 8\nwindow_ms = 10\n[queue]\nmax_waiting = 99\n'
        '[classes.chat]\npriority = 2\nmax_waiting = 99\nttft_slo_s = "6x 0.3..10"\n'
        "[classes.bulk]\npriority = 1\nmax_waiting = 99\n"
    )
    rows = "".join(f"{number},60,8,chat\n{number},900,8,bulk\n" for number in range(60))
    trace.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens,Class\n{rows}")
    assert main(["simulate", "--preset", str(preset), "--trace", str(trace), "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["classes"]["bulk"]["attained_ratio"] == 1.0
    assert main(["simulate", "--preset", str(preset), "--trace", str(trace)]) == 0
    out = capsys.readouterr().out
    assert "; bulk -, -" in out
    assert "prompts mean 480" in out, "no prompt of a trace is cut"


def test_a_sweep_names_the_knee_as_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each number of seats, and what to write into the file."""
    assert main(["simulate", "--sweep"]) == 0
    out = capsys.readouterr().out
    assert out.rstrip().endswith('[batching]\nseats = 16\n\n[limit]\npolicy = "fixed"')
    assert main(["simulate", "--sweep", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["most_within"] == 16
    assert f"The knee: {answer['knee']} seats, the point with the largest distance to the chord" in out
    assert answer["points"][0]["speedup"] == 1.0


def test_the_timeline_is_drawn_on_the_terminal_and_as_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three strategies, four seats."""
    pytest.importorskip("plotly")
    page = tmp_path / "timeline.html"
    assert main(["simulate", "--timeline", "--html", str(page)]) == 0
    assert "continuous: 8 steps, seats empty 0% of the time" in capsys.readouterr().out
    assert '"S7"' in page.read_text()


def test_help_lists_every_workload(capsys: pytest.CaptureFixture[str]) -> None:
    """By the name the flag takes."""
    with pytest.raises(SystemExit):
        main(["simulate", "--help"])
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in WORKLOADS)


@pytest.mark.parametrize(
    ("words", "issue"),
    [
        (["--preset", "nope"], "there is no preset 'nope'"),
        (["--workload", "W99"], "W99"),
        (["--trace", "none.csv"], "none.csv: cannot be read: No such file"),
        (["--trace", "x.csv", "--workload", "W1"], "either --workload or --trace"),
        (["--trace", "x.csv", "--load", "1", "--scale-time", "2"], "either --load"),
        (["--scale-time", "2"], "belong to --trace"),
        (["--strategies", "8", "--preset", "latency"], "either --strategies or --preset"),
        (["--strategies", "0"], "whole number from 1"),
        (["--step-ms", "0"], "a number above 0"),
        (["--seat-ms", "-1"], "a number from 0 to below 1e9"),
        (["--load", "much"], "a number above 0 and below 1e9"),
        (["--load", "1e300"], "a number above 0 and below 1e9"),
        (["--kv-tokens", "9" * 20], "a whole number from 1 to 999999999"),
        (["--sweep", "--csv", "x.csv"], "--sweep goes with"),
        (["--sweep", "--preset", "latency"], "--sweep goes with"),
        (["--sweep", "--load", "9"], "--sweep goes with"),
        (["--sweep", "--engine-alone"], "--sweep goes with"),
        (["--sweep", "--scale-lengths", "3"], "--sweep goes with"),
        (["--timeline", "--step-ms", "50"], "--timeline goes with"),
        (["--timeline", "--workload", "W3"], "--timeline goes with"),
        (["--strategies", "8", "--engine-alone"], "either --strategies or --engine-alone"),
        (["--workload", "W3", "--load", "1e-12"], "no request arrives"),
        (["--sweep", "--timeline"], "either --sweep or --timeline"),
        (["--timeline", "--csv", "x.csv"], "--timeline goes with"),
        (["--timeline", "--like", "http://x"], "--timeline goes with"),
        (["--csv", "x", "--html", "x"], "name the same file"),
        (["--duration", "0.0001"], "no request arrives"),
        ([*SHORT[1:], "--csv", "/nowhere/at/all.csv"], "/nowhere/at/all.csv: cannot be written"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words: list[str], issue: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, nothing on standard output."""
    assert main(["simulate", *words]) == 2
    out, err = capsys.readouterr()
    assert issue in err
    assert err.count("\n") == 1
    assert out == ""


@pytest.mark.parametrize(
    ("named", "policy_failures"),
    [
        ('ordering.inside = "faulty_policy:FaultyLine"', "the order: head raised LookupError"),
        (
            'limit.policy = "faulty_policy:FaultyLimit"',
            "the limit: faulty_policy:FaultyLimit failed 62 times, first at 1.5 s with LookupError: no figure",
        ),
        (
            'limit.policy = "faulty_policy:StumblingLimit"',
            "the limit: faulty_policy:StumblingLimit failed once, first at 1.5 s with KeyError: 'inter_token_s'",
        ),
        (
            'batching.strategy = "dynamic"\nbatching.window = "faulty_policy:FaultyWindow"',
            "the window: length_s raised LookupError",
        ),
    ],
)
def test_figures_that_are_not_those_of_the_preset_are_said_to_be_others(
    named: str, policy_failures: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A custom policy that fails is reported on the terminal, in the file and in JSON."""
    file = tmp_path / "mine.toml"
    file.write_text(f'name = "mine"\nextends = "balanced"\n{named}\n')
    words = [*SHORT, "--preset", str(file), "--preset", "balanced"]
    assert main([*words, "--csv", str(tmp_path / "out.csv")]) == 0
    failures = [line for line in capsys.readouterr().out.splitlines() if "custom policy failed" in line]
    assert failures == [f"mine: a custom policy failed and was replaced by a built-in one ({policy_failures})"]
    with (tmp_path / "out.csv").open() as lines:
        assert {(row["preset"], row["policy_failures"]) for row in csv.DictReader(lines)} == {
            ("mine", policy_failures),
            ("balanced", ""),
        }
    assert main([*words, "--json"]) == 0
    assert [run["policy_failures"] for run in json.loads(capsys.readouterr().out)["runs"]] == [policy_failures, ""]


def test_a_limit_that_failed_is_reported_however_the_run_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Long after the engine's last step, when the reason for the limit is another one, the failure is still
    reported."""
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nextends = "balanced"\nlimit.policy = "faulty_policy:FaultyLimit"\n')
    for duration_s in (5, 20, 60, 120):
        assert main(["simulate", "--duration", str(duration_s), "--preset", str(file)]) == 0
        assert "the limit: faulty_policy:FaultyLimit failed " in capsys.readouterr().out


def test_without_plotly_nothing_is_simulated_for_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line says what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["simulate", "--html", str(tmp_path / "x.html")]) == 2
    assert f"; install it with: {install_command('tools')}" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()
