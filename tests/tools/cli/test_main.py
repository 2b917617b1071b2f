"""The ``headway`` command as a whole: help, exit codes, one-line errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from admin_stand_in import Stub
from tiers import long_form

import headway_tools.cli as cli
from headway.errors import HeadwayError
from headway_policies import PresetError
from headway_tools.cli import main
from headway_tools.console.exits import CliError, Exit, FailedError, ServerUnreachableError, TokenError, UsageError


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["frobnicate"], id="unknown command"),
        pytest.param(["status", "--frobnicate"], id="unknown option"),
        pytest.param(["status", "--watch", "-1"], id="watch backwards"),
        pytest.param(["preset"], id="preset without a verb"),
        pytest.param(["preset", "use"], id="preset without a name"),
        pytest.param(["preset", "show", "nope"], id="unknown preset"),
        pytest.param(["dashboard", "--port", "70000"], id="no such port"),
        pytest.param(["demo", "--rate", "1000"], id="heavy demo"),
        pytest.param(["demo", "--exit-after", "soon"], id="no number"),
        pytest.param(["serve"], id="no model"),
        pytest.param(["serve", "./m", "--preset"], id="preset without value"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_two(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is wrong with the words, the user reads one line and a script gets 2."""
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith("headway: error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "close"),
    [
        (["statsu"], "status"),
        (["preset", "vaildate", "x.toml"], "validate"),
        (["status", "--jsn"], "--json"),
        (["preset", "show", "latency", "--preset-dri=x"], "--preset-dir"),
        (["preset", "show", "latenci"], "latency"),
        (["simulate", "--preset", "throughputt"], "throughput"),
    ],
)
def test_a_misspelt_word_gets_the_closest_one(words: list[str], close: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands, actions, flags and presets, in the one line of the error."""
    code, out, err = run(capsys, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"; did you mean {close}?" in err


def test_no_command_shows_the_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """A bare ``headway`` shows its usage, but is no success."""
    code, out, _ = run(capsys)
    assert code == 2
    assert "a first session:" in out


#: Every command, and each action of one that has several.
EXPLAINED = [
    *([command] for command in cli._COMMANDS),
    *(["preset", action] for action in ("diff", "validate", "recommend", "forecast", "list", "show", "use", "keep")),
    *(["keys", action] for action in ("add", "list", "revoke", "rotate")),
]


@pytest.mark.parametrize("words", [[], *EXPLAINED], ids=lambda words: " ".join(words) or "none")
def test_help_is_printed_and_succeeds(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every command explains itself with examples, in lines that fit."""
    try:
        code: object = main([*words, "--help"])
    except SystemExit as end:
        code = end.code
    out = capsys.readouterr().out
    assert code == 0
    assert f"  headway {' '.join(words)}" in out
    assert max(map(len, out.splitlines())) <= 130


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """And is no error."""
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert capsys.readouterr().out.startswith("headway ")


ASKING = [
    ["status"], ["pause"], ["resume"], ["drain"], ["warmup"], ["recycle"], ["fallback"], ["tune"], ["traffic"],
    ["preset", "use", "latency"], ["simulate", "--like", "http://127.0.0.1:1"],
]  # fmt: skip


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_without_a_token_no_server_is_asked(
    words: list[str], stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 4, and the line names both variables."""
    monkeypatch.setenv("HEADWAY_URL", stub.url)
    assert main(words) == 4
    assert "HEADWAY_ADMIN_TOKEN_FILE" in capsys.readouterr().err
    assert stub.seen == []


@pytest.mark.parametrize("words", ASKING[:-1], ids=" ".join)
def test_a_wrong_url_is_said_before_a_missing_token(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A token would not help."""
    monkeypatch.setenv("HEADWAY_URL", "h:1")
    assert main(words) == 2
    assert "not a URL of a server, such as http://127.0.0.1:8000: 'h:1'" in capsys.readouterr().err


def test_serve_help_names_ours_first_then_the_way_to_those_of_vllm(capsys: pytest.CaptureFixture[str]) -> None:
    """Headway's few options are not lost among vLLM's hundreds."""
    _, out, _ = run(capsys, "serve", "--help")
    assert out.index("--no-warmup") < out.index("headway serve --help=all")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FailedError("no"), 1),
        (UsageError("no"), 2),
        (ServerUnreachableError("no"), 3),
        (TokenError("no"), 4),
        (HeadwayError("no"), 1),
        (PresetError("no"), 2),
        (KeyboardInterrupt(), 130),
        (CliError("two\n  lines"), 1),
    ],
    ids=repr,
)
def test_each_kind_of_end_has_its_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors become exit codes in one place; Ctrl-C prints nothing."""
    monkeypatch.setattr(cli, "_dispatch", _raising(error))
    assert main([]) == code
    err = capsys.readouterr().err
    assert err.count("\n") == (0 if code == 130 else 1)


def _run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with a standard output of the test's choice."""
    command = [sys.executable, "-m", "headway", *words]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120, check=False, **options)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_output_that_cannot_be_written_is_one_line() -> None:
    """A full disk gives no traceback."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = _run("preset", "list", stdout=full)
    assert (done.returncode, done.stderr) == (
        1,
        "headway: error: the output could not be written: No space left on device\n",
    )


def test_a_terminal_without_a_letter_gets_the_others(tmp_path: Path) -> None:
    """In a description, say."""
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nextends = "balanced"\ndescription = "d\u00e9j\u00e0 vu"\n', encoding="utf-8")
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = _run("preset", "show", str(file), stdout=subprocess.PIPE, env=plain)
    assert (done.returncode, done.stderr) == (0, "")
    assert "d\\xe9j\\xe0 vu" in done.stdout


def test_an_unexpected_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of Headway is not shown as the user's mistake."""
    monkeypatch.setattr(cli, "_dispatch", _raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main([])


def test_exit_codes_are_those_of_the_manual() -> None:
    """Scripts depend on the numbers."""
    assert {one.name: one.value for one in Exit} == {
        "OK": 0,
        "FAILED": 1,
        "USAGE": 2,
        "UNREACHABLE": 3,
        "TOKEN": 4,
        "REVERTED": 5,
    }


@pytest.mark.parametrize(
    "words",
    [
        "preset list",
        "--version",
        "export grafana",
        pytest.param("doctor --help", marks=long_form("--version is written by the same parser")),
        pytest.param("export rules", marks=long_form("the board is written by the same program")),
    ],
)
def test_python_dash_m_is_the_same_command_and_survives_a_closed_pipe(words: str) -> None:
    """``python -m headway ... | head -0`` ends without a traceback."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reader, writer = os.pipe()
    os.close(reader)
    done = _run(*words.split(), stdout=writer, env=buffered)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def _raising(error: BaseException) -> Callable[[list[str]], int]:
    def dispatch(_: list[str]) -> int:
        raise error

    return dispatch
