"""``headway export``: it becomes the dashboard's own writer, which needs none of the dashboard's packages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from headway_dashboard.export.__main__ import main as write
from headway_tools.cli import export, main
from headway_tools.console import install_command


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record instead of replacing this process."""
    calls: list[list[str]] = []
    monkeypatch.setattr(export.os, "execv", lambda program, words: calls.append([program, *words[1:]]))
    return calls


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["grafana"], ["grafana"]),
        (["grafana", "--output", "b.json"], ["grafana", "--output=b.json"]),
        (["rules", "--output", "-x"], None),
        (["rules", "--output=-x", "--runbooks", "https://w/h"], ["rules", "--output=-x", "--runbooks=https://w/h"]),
    ],
    ids=["to standard output", "to a file", "no value", "a name with a dash"],
)
def test_it_becomes_the_writer_of_this_interpreter(
    words: list[str], expected: list[str] | None, became: list[list[str]]
) -> None:
    """The same Python writes it; a value keeps its option, whatever it begins with."""
    code = main(["export", *words])
    if expected is None:
        assert (code, became) == (2, [])
    else:
        assert became == [[sys.executable, "-m", "headway_dashboard.export", *expected]]


@pytest.mark.parametrize("words", [[], ["docs"], ["grafana", "--runbooks", "x"]], ids=["none", "unknown", "option"])
def test_wrong_usage_is_one_line(words: list[str], became: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is started."""
    assert main(["export", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert became == []


def test_a_missing_dashboard_is_named_with_the_way_to_install_it(
    became: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plugin alone has no catalogue."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["export", "rules"]) == 2
    assert f"; install it with: {install_command('dashboard')}" in capsys.readouterr().err
    assert became == []


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "headway", "export", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_board_and_rules_are_written(
    tmp_path: Path, became: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The board to standard output, the rules to a file with links into a page of the user's; the writer of the rules
    runs in this process, with the words that the command becomes.
    """
    done = run("grafana")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["title"] == "Headway"
    file = tmp_path / "rules.yml"
    main(["export", "rules", "--output", str(file), "--runbooks", "https://wiki/headway"])
    ((_, _, module, *words),) = became
    assert (module, write(words)) == (write.__module__.removesuffix(".__main__"), 0)
    assert capsys.readouterr() == ("", "")
    groups = yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert {rule["annotations"]["runbook_url"].partition("#")[0] for rule in alerts} == {"https://wiki/headway"}


@pytest.mark.parametrize(
    ("words", "place", "why"),
    [
        (["grafana"], "", "a folder, not a file"),
        (["rules"], "/no/rules.yml", "no such folder"),
    ],
    ids=["a folder", "in no folder"],
)
def test_a_file_that_cannot_be_one_is_wrong_usage(
    words: list[str],
    place: str,
    why: str,
    tmp_path: Path,
    became: list[list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line names the file and the reason; nothing is started."""
    file = f"{tmp_path}{place}"
    assert main(["export", *words, "--output", file]) == 2
    assert capsys.readouterr().err == f"headway: error: {file}: cannot be written: {why}\n"
    assert became == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_failed_write_is_one_line_and_exit_code_one(
    became: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code of the writer, which the command becomes."""
    main(["export", "rules", "--output", "/dev/full"])
    ((*_, action, output),) = became
    assert write([action, output]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.endswith("No space left on device\n")


def test_it_needs_no_package_of_the_dashboard(tmp_path: Path) -> None:
    """Neither Streamlit nor plotly: alerts can be written on a server that has no dashboard."""
    script = (
        "import sys; sys.modules.update(dict.fromkeys(('streamlit', 'plotly', 'prometheus_api_client')));"
        "from headway_dashboard.export.__main__ import main; sys.exit(main(['rules']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "HeadwayDown" in done.stdout
