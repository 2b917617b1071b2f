"""``headway preset diff`` and ``headway preset validate``."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headway_policies import changes, load_preset, parse_preset
from headway_policies.conformance.limits import RULES
from headway_policies.preset import differences, effective
from headway_tools.cli import main
from headway_tools.console import setting_text

SHORT_LINE = """
from headway_policies.queueing.disciplines import Fifo

class Newest(Fifo):
    def head(self, now_s):
        return self.newest()

class Forgetful(Fifo):
    def remove(self, ticket_id):
        return None

class Particular(Fifo):
    def __init__(self, colour):
        super().__init__()
"""

LIMITS = """
class Steady:
    def __init__(self, limiting, fixed):
        self.fixed = fixed

    def propose(self, seen, allowed):
        return self.fixed


class Vague(Steady):
    def propose(self, seen, allowed):
        return "about ten"


class Patient(Steady):
    def propose(self, seen, allowed):
        slow = seen.inter_token_s is not None and seen.inter_token_s > 0.075
        return max(1, allowed // 2) if slow else allowed + 1


class Both(Patient):
    def propose(self, seen, allowed):
        return float(super().propose(seen, allowed))
"""


def write(folder: Path, name: str, text: str = "") -> str:
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"\nextends = "balanced"\n{text}', encoding="utf-8")
    return str(path)


def printed(*words: str) -> str:
    """What the command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(["preset", *words])
    return out.getvalue()


#: Settings that go with all others, and what each may be.
FREE: dict[str, st.SearchStrategy[Any]] = {
    "batching.window_ms": st.floats(0, 60_000),
    "batching.seats": st.integers(1, 65_536),
    "batching.max_total_tokens": st.integers(1, 10**18),
    "warmup.prompt_tokens": st.lists(st.integers(1, 100_000), min_size=1, max_size=3),
    "memory.kv_usage_ratio": st.floats(0.9, 1, exclude_min=True),
    "memory.gpu_usage_ratio": st.floats(0.9, 1, exclude_min=True),
    "limit.kv_reserve_ratio": st.floats(0, 1, exclude_max=True),
    "limit.shadow": st.booleans(),
    "ordering.inside": st.sampled_from(["fifo", "edf", "hrrn", "fair"]),
    "classes.batch.queue_timeout_s": st.floats(0, 86_400, exclude_min=True),
    "classes.batch.service_tiers": st.lists(st.text(st.characters(exclude_categories=["C"])), max_size=3, unique=True),
}
CHOSEN = st.fixed_dictionaries({}, optional=FREE)


def file_of(folder: Path, name: str, chosen: dict[str, Any]) -> str:
    """A preset file with these settings, written by another hand than the one under test."""
    return write(
        folder, name, "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in chosen.items())
    )


@given(CHOSEN)
def test_what_show_prints_is_the_preset_to_the_last_digit(chosen: dict[str, Any]) -> None:
    """The rows of the table, read as a preset file, are the very preset; so is the JSON."""
    with TemporaryDirectory() as folder:
        file = file_of(Path(folder), "mine", chosen)
        preset = load_preset(file)
        rows = printed("show", file).splitlines()[5:]
        parsed = parse_preset(
            'name = "mine"\n' + "\n".join(re.sub(r" +", " = ", row[2:], count=1) for row in rows), "-"
        )
        assert parsed.settings() == preset.settings()
        assert json.loads(printed("show", file, "--json"))["settings"] == preset.settings()


@given(CHOSEN, CHOSEN)
@example({"classes.batch.service_tiers": ["  "]}, {"classes.batch.service_tiers": [" "]})
def test_diff_never_shows_two_equal_texts(one: dict[str, Any], other: dict[str, Any]) -> None:
    """A row for each setting that differs where it acts, and its two values differ to the eye; the others are named."""
    with TemporaryDirectory() as folder:
        files = file_of(Path(folder), "one", one), file_of(Path(folder), "other", other)
        presets = [load_preset(file) for file in files]
        out = printed("diff", *files)
    shown = differences(*(effective(preset.settings()) for preset in presets))
    acting = [change.setting for change in shown]
    idle = {change.setting for change in changes(*presets)}.difference(acting)
    *lines, last = out.splitlines()[bool(acting) :] or [""]
    if idle:
        assert last == f"without effect in either: {', '.join(sorted(idle))}"
    elif acting:
        lines.append(last)
    texts = [(change.setting, setting_text(change.before), setting_text(change.after)) for change in shown]
    assert all(before != after for _, before, after in texts)
    # A value may have spaces in it, so that no line can be cut into its columns.
    assert [line.split() for line in lines] == ["  ".join(row).split() for row in texts]


@pytest.fixture
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of custom policies, on the import path."""
    (tmp_path / "strangers_lines.py").write_text(SHORT_LINE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_diff_shows_what_differs_and_ends_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    """As diff does."""
    assert main(["preset", "diff", "latency", "throughput"]) == 1
    *table, last = capsys.readouterr().out.splitlines()
    head, *rows = [line.split() for line in table]
    assert head == ["setting", "latency", "throughput"]
    assert last == "without effect in either: batching.window_ms"
    assert ["batching.seats", "8", "64"] in rows
    objectives = {row[0] for row in rows} - {
        "batching.seats",
        "fallback.queue_age_s",
        "limit.policy",
        "limit.set_point_ratio",
    }
    times = {"ttft_slo_s", "inter_token_slo_ms", "queue_timeout_s", "first_token_timeout_s"}
    assert {row.rsplit(".", 1)[1] for row in objectives} == times


def test_diff_of_equal_presets_ends_in_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name and a description make no difference."""
    assert main(["preset", "diff", "balanced", write(tmp_path, "mine")]) == 0
    assert capsys.readouterr().out == "no setting differs\n"


def test_diff_knows_files_folders_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A preset of ``--preset-dir`` against a file; a setting that one does not have is null."""
    write(tmp_path, "mine")
    other = write(tmp_path, "other", "batching.flush_after_s = 3")
    assert main(["preset", "diff", "mine", other, "--preset-dir", str(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "a": "mine",
        "b": "other",
        "changes": [{"setting": "batching.flush_after_s", "before": None, "after": 3.0}],
    }


def test_diff_compares_two_files_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Yesterday's file and today's."""
    (tmp_path / "old").mkdir()
    old, new = write(tmp_path / "old", "mine"), write(tmp_path, "mine", "batching.seats = 9")
    assert main(["preset", "diff", old, new]) == 1
    assert ["batching.seats", "32", "9"] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_diff_of_an_unknown_preset_ends_in_two(capsys: pytest.CaptureFixture[str]) -> None:
    """Trouble is no difference."""
    assert main(["preset", "diff", "latency", "nope"]) == 2
    assert "there is no preset 'nope'" in capsys.readouterr().err


def test_validate_says_ok_and_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings do not make a file invalid."""
    good, doubtful = (
        write(tmp_path, "good"),
        write(tmp_path, "doubtful", 'batching.seats = 100\nlimit = { policy = "fixed", memory_aware = false }'),
    )
    assert main(["preset", "validate", good, doubtful]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[:2] == [f"{good}: ok", f"{doubtful}: ok"]
    assert out[2].startswith("  warning: batching.seats: beyond 64")
    assert len(out) == 3


def test_validate_says_what_has_no_effect_in_a_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only where one is named, and of settings that are not left at their defaults."""
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nextends = "balanced"\nmemory.recycle_every_s = 3600\n')
    for place, warned in (((), False), (("--place", "serve"), False), (("--place", "route"), True)):
        assert main(["preset", "validate", str(file), *place]) == 0
        line = "  warning: recycle ([memory] recycle_every_s): no effect here: nothing here can start another engine\n"
        assert (line in capsys.readouterr().out) is warned


def test_validate_reads_on_after_a_bad_file_and_ends_in_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every file gets its verdict."""
    bad, good = write(tmp_path, "bad", "batching.seats = 0"), write(tmp_path, "good")
    assert main(["preset", "validate", bad, good, "--json"]) == 2
    first, second = json.loads(capsys.readouterr().out)
    assert (first["file"], first["preset"]) == (bad, None)
    assert [(one["where"], one["value"], one["line"]) for one in first["errors"]] == [("batching.seats", "0", 3)]
    assert second == {"file": good, "preset": "good", "errors": [], "accepted": [], "warnings": []}
    assert main(["preset", "validate", bad]) == 2
    assert capsys.readouterr().out == (
        f"{bad}: error\n  error: batching.seats: must be greater than or equal to 1 (line 3: 0)\n"
    )


ALL_WRONG = '''name = "Bad"
extends = "base.toml"
# seats = 3
description = """
seats = 9
"""
[batching]
seats = 0
chairs = "do not repeat"
[classes]
realtime.service_tiers = [
  "priority",
  3,
]
[classes.fast]
max_waiting = 4
'''


def test_validate_reports_every_error_with_its_place_and_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors of the file and of the one that it extends; the value of an unknown key is not repeated."""
    base, bad = tmp_path / "base.toml", tmp_path / "bad.toml"
    base.write_text('extends = "balanced"\n\nbatching.window_ms = "many"\n', encoding="utf-8")
    bad.write_text(ALL_WRONG, encoding="utf-8")
    assert main(["preset", "validate", str(bad), "--json"]) == 2
    out = capsys.readouterr().out
    (verdict,) = json.loads(out)
    assert {(one["where"], one["value"], Path(one["file"] or "").name, one["line"]) for one in verdict["errors"]} == {
        ("name", '"Bad"', "bad.toml", 1),
        ("batching.seats", "0", "bad.toml", 8),
        ("batching.chairs", None, "bad.toml", 9),
        ("batching.window_ms", '"many"', "base.toml", 3),
        ("classes.realtime.service_tiers.1", "3", "bad.toml", 11),
        ("classes.fast.priority", None, "", None),
    }
    assert "do not repeat" not in out
    assert main(["preset", "validate", str(bad)]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert f'  error: in {base}: batching.window_ms: must be a valid number (line 3: "many")' in lines


def test_validate_names_the_line_that_is_no_toml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One error: a parser reads no further."""
    bad = tmp_path / "bad.toml"
    bad.write_text('name = "bad"\nseats 8\nwindow = 3 4\n', encoding="utf-8")
    assert main(["preset", "validate", str(bad), "--json"]) == 2
    ((error,),) = [verdict["errors"] for verdict in json.loads(capsys.readouterr().out)]
    assert (error["file"], error["line"], error["where"]) == (str(bad), 2, "")
    assert error["message"].startswith("not valid TOML: ")
    bad.write_text(f"max = {'9' * 5000}", encoding="utf-8")
    assert main(["preset", "validate", str(bad)]) == 2
    assert "line 1: longer than 1000 characters" in capsys.readouterr().out


def test_a_folder_with_several_wrong_files_reports_all_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, as every command ends."""
    first, second = write(tmp_path, "a", "batching.seats = 0"), write(tmp_path, "b", "batching.bins = 0")
    assert main(["preset", "list", "--preset-dir", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    for part in (first, "batching.seats: must be", second, "batching.bins: must be"):
        assert part in err


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("Newest", None),
        ("Forgetful", "ordering.inside: strangers_lines:Forgetful: seed 0"),
        ("Particular", "ordering.inside: strangers_lines:Particular cannot be created: TypeError: "),
        ("Absent", "ordering.inside: strangers_lines has no Absent"),
    ],
)
def test_validate_proves_a_policy_of_your_own(
    policy: str, message: str | None, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The policy has to pass the conformance suite of its kind, or the reason is printed."""
    file = write(policies, "mine", f'ordering.inside = "strangers_lines:{policy}"')
    assert main(["preset", "validate", file]) == (0 if message is None else 2)
    out = capsys.readouterr().out
    assert out == f"{file}: ok\n" if message is None else message in out


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("Steady", None),
        (
            "Vague",
            "limit.policy: strangers_limits:Vague: breaks the rule whole-number: A policy proposes a whole number",
        ),
        (
            "Patient",
            "before the storm. At seed 0, 500 seats at the start, after the storm, step 720: "
            "expected 250 seats or more, with 500 before the storm, got 71\n"
            "    if intended: --accept recovers\n",
        ),
    ],
)
def test_validate_proves_a_limit_of_your_own(
    policy: str,
    message: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A limit policy has to propose whole numbers."""
    (tmp_path / "strangers_limits.py").write_text(LIMITS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    file = write(tmp_path, "mine", f'limit.policy = "strangers_limits:{policy}"')
    assert main(["preset", "validate", file]) == (0 if message is None else 2)
    out = capsys.readouterr().out
    sys.modules.pop("strangers_limits")
    assert out == f"{file}: ok\n" if message is None else message in out


def test_an_author_may_break_a_rule_on_purpose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rule is reported as accepted, in JSON too; a rule of safety cannot be, and one accepted hides no other."""
    (tmp_path / "strangers_limits.py").write_text(LIMITS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    file = write(tmp_path, "mine", 'limit.policy = "strangers_limits:Patient"')
    assert main(["preset", "validate", file, "--accept", "recovers"]) == 0
    ok, accepted = capsys.readouterr().out.splitlines()
    assert ok == f"{file}: ok"
    assert accepted.startswith("  accepted: limit.policy: strangers_limits:Patient: breaks the rule recovers: ")
    assert main(["preset", "validate", file, "--accept", "recovers", "--json"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)
    assert ([one["rule"] for one in verdict["accepted"]], verdict["errors"]) == (["recovers"], [])
    file = write(tmp_path, "mine", 'limit.policy = "strangers_limits:Both"')
    assert main(["preset", "validate", file, "--accept", "recovers", "--json"]) == 2
    (verdict,) = json.loads(capsys.readouterr().out)
    sys.modules.pop("strangers_limits")
    assert [one["rule"] for one in verdict["errors"]] == ["whole-number"]
    assert [one["rule"] for one in verdict["accepted"]] == ["recovers"]
    assert main(["preset", "validate", file, "--accept", "whole-number"]) == 2
    assert "invalid choice: 'whole-number'" in capsys.readouterr().err


def test_the_help_states_every_rule_of_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """In one sentence each, with a star for those that may be accepted."""
    with pytest.raises(SystemExit):
        main(["preset", "validate", "--help"])
    out = capsys.readouterr().out
    for rule in RULES.values():
        assert f"  {'*' if rule.acceptable else ' '} {rule.name} " in out
        assert rule.statement in " ".join(out.split())
