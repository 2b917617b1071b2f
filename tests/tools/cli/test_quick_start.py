"""The quick start, word by word: real commands, and Headway's real HTTP side before a stand-in for the engine."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from quick_start import ADDRESS, MODEL, PAGE, shell, steps, unseen
from running_router import RunningRouter, StandIn

from headway_tools.cli import main


def test_it_is_three_commands_in_three_hundred_words() -> None:
    """Each with what it prints, and then the way on."""
    found = steps()
    assert len(found) == 3
    assert all(step.lines for step in found)
    assert len(PAGE.read_text(encoding="utf-8").split()) <= 330


@pytest.mark.slow
def test_its_key_gives_the_answer_that_it_promises(tmp_path: Path) -> None:
    """The key is made and the request is sent as they stand there; only the port is another one."""
    key, _, ask = steps()
    with StandIn() as engine:
        router = RunningRouter.before(tmp_path / "log", [engine.url], HEADWAY_KEYS_FILE=str(tmp_path / "keys.toml"))
        said = shell(tmp_path, f'{key.command}; echo "key=$OPENAI_API_KEY"')
        made = said.split("key=")[1].splitlines()[0]
        assert unseen(key, said, router.port) == []
        with router:
            assert ADDRESS in ask.command
            request = ask.command.replace(ADDRESS, f"127.0.0.1:{router.port}")
            answer = shell(tmp_path, request, {"OPENAI_API_KEY": made})
    assert unseen(ask, answer, router.port) == []


def test_its_server_starts_with_the_words_that_are_printed(
    launched: list[tuple[str, ...]],
    port: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Up to the call into vLLM's launcher, with the keys file; the summary has the lines of the page."""
    monkeypatch.chdir(tmp_path)
    shell(tmp_path, "headway keys add --file keys.toml --tenant me")
    variable, headway, serve, *words = shlex.split(steps()[1].command)
    assert (headway, serve, words[0], words[-1]) == ("headway", "serve", MODEL, "&")
    monkeypatch.setenv(*variable.split("=", 1))
    assert main(["serve", str(tmp_path), *words[1:-1], "--port", port]) == 0
    assert launched == [(str(tmp_path), "--scheduling-policy", "priority", *words[1:-1], "--port", port)]
    assert unseen(steps()[1], capsys.readouterr().err, port, tmp_path) == []
