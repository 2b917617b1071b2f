"""The commands of the quick start as its page prints them, and what each prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from running_server import ROOT

PAGE = ROOT / "deploy" / "site" / "docs" / "quick-start.md"
_VERSION = re.compile(r"headway \d\S+")
#: Where the page lets the server listen, and what it serves: no test can have either.
ADDRESS, MODEL = "127.0.0.1:8000", "Qwen/Qwen3-0.6B"


class Step(NamedTuple):
    """A command, and the lines that are promised of it."""

    command: str
    lines: tuple[str, ...]


def steps() -> list[Step]:
    """All of the page, in their order."""
    blocks = re.findall(r"(?:^    .*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    found = []
    for block in blocks:
        text = re.sub(r"\\\n +", "", re.sub(r"^    ", "", block, flags=re.MULTILINE))
        command, *lines = text.splitlines()
        assert command.startswith("$ "), command
        found.append(Step(command[2:], tuple(lines)))
    return found


def unseen(step: Step, output: str, port: int | str, model: Path | str = MODEL) -> list[str]:
    """The promised lines that a command has not printed where it had this port and this model; versions are alike."""
    shown = [_VERSION.sub("headway", line.strip()) for line in output.splitlines()]
    wanted = (line.replace(ADDRESS, f"127.0.0.1:{port}").replace(MODEL, str(model)) for line in step.lines)
    return [line for line in wanted if _VERSION.sub("headway", line.strip()) not in shown]


def shell(folder: Path, script: str, environment: Mapping[str, str] | None = None) -> str:
    """Run commands as a user's shell does, with `headway` on the path; returns all that they print."""
    command = folder / "bin" / "headway"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m headway "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    own = {**os.environ, **(environment or {}), "PATH": f"{command.parent}:{os.environ['PATH']}"}
    own["PYTHONPATH"] = os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, capture_output=True, text=True, timeout=120, env=own, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
