"""The children's command lines and environments, the token, the stages of loading, the checks before the start."""

from __future__ import annotations

import dataclasses
import io
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headway_tools.console.exits import Exit, UsageError
from headway_tools.console.serve_flags import split, value_of
from headway_tools.demo import check as checking
from headway_tools.demo.loading import STAGES, Progress, stage_of
from headway_tools.demo.options import Options
from headway_tools.demo.parts import dashboard_command, environment, server_command, write_token
from headway_tools.demo.show import _Show

OPTIONS = Options(
    model="models/SmolLM2-135M-Instruct",
    preset="latency",
    server_port=8000,
    dashboard_port=8501,
    rate_per_s=1.0,
    exit_after_s=None,
    as_json=False,
)


def test_the_server_is_the_command_a_user_would_type() -> None:
    """Loopback only, and a quick start; what that is on this machine is chosen by ``headway serve``, not here."""
    command = server_command(OPTIONS)
    assert command[1:4] == ["-m", "headway", "serve"]
    words = split(command[4:])
    assert (words.preset, words.engine[0]) == ("latency", OPTIONS.model)
    assert value_of(words.engine, "--host") == "127.0.0.1"
    assert value_of(words.engine, "--served-model-name") == "smollm2"
    assert words.quick_start
    assert "--enforce-eager" not in command


def test_the_dashboard_reads_that_server() -> None:
    """Its address and its own port."""
    command = dashboard_command(OPTIONS)
    assert command[1:4] == ["-m", "headway", "dashboard"]
    assert value_of(command, "--url") == "http://127.0.0.1:8000"
    assert value_of(command, "--port") == "8501"


def test_the_children_get_our_token_and_no_other(tmp_path: Path) -> None:
    """A token in a variable would win over the file; what the user set otherwise stays."""
    environ = {"HEADWAY_ADMIN_TOKEN": "x", "HEADWAY_VIEWER_TOKEN": "y", "VLLM_CPU_KVCACHE_SPACE": "8", "PATH": "p"}
    got = environment(environ, tmp_path / "t")
    assert "HEADWAY_ADMIN_TOKEN" not in got
    others = {"HEADWAY_KEYS_FILE": "k", "HEADWAY_TRUSTED_PROXIES": "10.0.0.1", "VLLM_API_KEY": "v"}
    ours = environment(environ | others, tmp_path / "t")
    assert (ours.keys() & others.keys(), ours["HEADWAY_TRUSTED_PROXIES"]) == ({"HEADWAY_TRUSTED_PROXIES"}, "127.0.0.1")
    assert "HEADWAY_VIEWER_TOKEN" not in got
    assert got["HEADWAY_ADMIN_TOKEN_FILE"] == str(tmp_path / "t")
    assert (got["VLLM_CPU_KVCACHE_SPACE"], got["PATH"]) == ("8", "p")
    assert got["HF_HUB_OFFLINE"] == got["VLLM_NO_USAGE_STATS"] == got["DO_NOT_TRACK"] == "1"
    assert not {"VLLM_CPU_KVCACHE_SPACE", "TORCHDYNAMO_DISABLE"} & environment({}, tmp_path / "t").keys()


def test_the_token_is_fresh_long_and_private(tmp_path: Path) -> None:
    """Readable by its owner alone."""
    (tmp_path / "a").mkdir()
    first, second = write_token(tmp_path), write_token(tmp_path / "a")
    assert first.read_text() != second.read_text()
    assert len(first.read_text().strip()) >= 32
    assert first.stat().st_mode & 0o777 == 0o600


def test_the_stage_is_the_last_one_the_log_reached() -> None:
    """In the order of the table."""
    assert stage_of("") == "starting Python"
    log = ""
    for piece, words in STAGES:
        log += f"INFO {piece} ...\n"
        assert stage_of(log) == words


def test_progress_is_a_line_at_each_change_where_there_is_no_terminal(tmp_path: Path) -> None:
    """A log file is not flooded."""
    out, log = io.StringIO(), tmp_path / "log"
    progress = Progress(out)
    for text in ("", "", STAGES[0][0], STAGES[0][0]):
        log.write_text(text)
        progress.show(log)
    progress.done()
    assert [line.split("s  ")[1] for line in out.getvalue().splitlines()] == [
        "starting Python ...",
        f"{STAGES[0][1]} ...",
    ]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_on_a_terminal(tmp_path: Path) -> None:
    """Rewritten in place and wiped at the end."""
    out, log = _Terminal(), tmp_path / "log"
    log.write_text("")
    progress = Progress(out)
    progress.show(log)
    progress.done()
    assert "\n" not in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[K")


@pytest.fixture
def runnable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    """Options that pass every check, whatever is installed here."""
    (tmp_path / "config.json").touch()
    monkeypatch.setattr(checking, "has_vllm", lambda: True)
    monkeypatch.setattr(checking, "missing_dashboard_packages", list)
    ports = []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as server:
            ports.append(server.getsockname()[1])
    return dataclasses.replace(OPTIONS, model=str(tmp_path), server_port=ports[0], dashboard_port=ports[1])


def test_a_demo_that_can_run_passes(runnable: Options) -> None:
    """Nothing is printed."""
    checking.check(runnable)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"model": "/no/such"}, "make demo"),
        ({"preset": "nope"}, "serial, dynamic-latency, latency, interactive, balanced, dynamic, "),
        ({"dashboard_port": None}, "are the same"),
    ],
    ids=["model", "preset", "ports"],
)
def test_a_demo_that_cannot_run_says_what_to_do(change: dict[str, object], expected: str, runnable: Options) -> None:
    """Before anything is started."""
    if "dashboard_port" in change:
        change = {"dashboard_port": runnable.server_port}
    with pytest.raises(UsageError, match=expected):
        checking.check(dataclasses.replace(runnable, **change))  # type: ignore[arg-type] # a table of mixed changes


@pytest.mark.parametrize(("field", "flag"), [("server_port", "--port"), ("dashboard_port", "--dashboard-port")])
def test_a_taken_port_is_named_with_its_own_flag(field: str, flag: str, runnable: Options) -> None:
    """The user has two to choose."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port} is in use .* with {flag} "):
            checking.check(dataclasses.replace(runnable, **{field: port}))


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        pytest.param(
            {"vllm", "streamlit"},
            r"needs vLLM, streamlit; install with: .*\[cpu,dashboard\]'? \(gpu instead",
            id="everything",
        ),
        pytest.param({"vllm"}, r"needs vLLM; install with: .*\[cpu\]'? \(gpu", id="the engine"),
        pytest.param({"plotly"}, r"needs plotly; install with: .*\[dashboard\]'?$", id="the dashboard"),
    ],
)
def test_all_missing_packages_are_named_in_one_line(
    missing: set[str], expected: str, runnable: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the model: a newcomer without vLLM has none either."""
    monkeypatch.undo()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in missing else name)
    with pytest.raises(UsageError, match=expected):
        checking.check(dataclasses.replace(runnable, model="/no/such"))


WITHOUT = """
import importlib.machinery, sys
class Without(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {"vllm", "streamlit"} else super().find_spec(name, path)
sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Without
from headway_tools.cli import main
sys.exit(main(["demo"]))
"""


@pytest.mark.slow
def test_the_command_says_what_to_install_where_nothing_is() -> None:
    """In an interpreter that finds no vLLM, and nothing that comes with it: one line, and the code of wrong usage."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == Exit.USAGE
    assert done.stderr.startswith("headway: error: the demo needs vLLM, streamlit; install with: ")
    assert done.stderr.count("\n") == 1


def test_a_signal_stops_the_demo_where_nothing_can_be_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal, or the reader of a pipe, is gone."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    show = _Show(Options("m", "balanced", 8000, 8501, 1.5, None, as_json=False))
    show._interrupt()
    assert show._stop.is_set()
