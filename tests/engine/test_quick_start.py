"""The quick start on the real engine: from the key to the answer."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from engine_parts import long_form
from quick_start import ADDRESS, MODEL, shell, steps, unseen
from running_server import SEATS, TINY_MODEL, RunningServer


@long_form("tests/tools/cli/test_quick_start has the same commands without an engine")
def test_its_commands_lead_to_the_answer_that_it_promises(real_engine: None, tmp_path: Path) -> None:
    """As they are printed, but for the model, the port, and what a test server has beside."""
    key, serve, ask = steps()
    said = shell(tmp_path, f'{key.command}; echo "key=$OPENAI_API_KEY"')
    assert unseen(key, said, "") == []
    variable, _, *words = shlex.split(serve.command.removesuffix("&"))
    name, _, file = variable.partition("=")
    command = [str(TINY_MODEL) if word == MODEL else word for word in words]
    server = RunningServer(
        [sys.executable, "-m", "headway", *command, *SEATS], tmp_path / "log", {name: str(tmp_path / file)}
    )
    with server:
        assert unseen(serve, server.log(), server.port, TINY_MODEL) == []
        request = ask.command.replace(ADDRESS, f"127.0.0.1:{server.port}")
        answer = shell(tmp_path, request, {"OPENAI_API_KEY": said.split("key=")[1].splitlines()[0]})
    assert unseen(ask, answer, server.port) == []
