from __future__ import annotations

import os
import sys
from pathlib import Path

import progress
import pytest
from progress import Progress, StepError


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_goes_to_the_log_and_steps_to_the_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A flood of pip's stays out of the way, and is kept."""
    steps = Progress(2, tmp_path / "log")
    steps.run("first", python("print('flood')"), dict(os.environ))
    steps.done("second: nothing to do")
    shown = capsys.readouterr().out
    assert "[1/2] first: done in" in shown
    assert "[2/2] second: nothing to do" in shown
    assert "flood\n" not in shown
    assert "flood" in steps.tail()


def test_a_step_that_fails_raises_and_keeps_its_log(tmp_path: Path) -> None:
    """The exit code is in the message, the reason at the end of the log."""
    steps = Progress(1, tmp_path / "log")
    with pytest.raises(StepError, match="exited with 3"):
        steps.run("breaks", python("print('the reason'); raise SystemExit(3)"), dict(os.environ))
    assert steps.tail().endswith("the reason")


def test_a_long_step_shows_that_it_lives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal, the seconds and what the tool is doing come as lines."""
    monkeypatch.setattr(progress, "PLAIN_TICK_S", 0.05)
    code = "import time; print('Collecting torch', flush=True); print('WARNING: noise', flush=True); time.sleep(0.5)"
    Progress(1, tmp_path / "log").run("long", python(code), dict(os.environ))
    assert "s, Collecting torch" in capsys.readouterr().out
