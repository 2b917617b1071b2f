"""The completion that `headway --print-completion` prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headway_tools.cli import main
from headway_tools.console import install_command
from headway_tools.console.completion import SHELLS

ASK = """\
COMP_WORDS=({words}); COMP_CWORD={place}; _shtab_headway
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def _printed(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", shell])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["pre"], ["preset"]),
        (["preset", "us"], ["use"]),
        (["preset", "use", "--rev"], ["--revert-after", "--revert-if"]),
        (["serve", "--preset-"], ["--preset-dir"]),
    ],
    ids=" ".join,
)
def test_bash_completes_commands_and_their_options(
    typed: list[str], expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In bash itself, without a start of Python."""
    script = tmp_path / "ask.bash"
    ask = ASK.format(words=" ".join(["headway", *typed]), place=len(typed))
    script.write_text(_printed("bash", capsys) + ask, encoding="utf-8")
    done = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == expected
    assert done.stderr == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With all commands, and with an option of the last one."""
    printed = _printed(shell, capsys)
    assert all(word in printed for word in ("recycle", "doctor", "revert-after"))


def test_a_start_of_the_command_does_not_import_what_completion_needs() -> None:
    """The command is as quick with it as without."""
    code = "import sys; from headway_tools.cli import main; main(['preset', 'list']); assert 'shtab' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_shtab_the_way_to_install_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line."""
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "bash"]) == 2
    assert capsys.readouterr().err == (
        f"headway: error: completion needs shtab; install it with: {install_command('tools')}\n"
    )
