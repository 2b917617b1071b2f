"""``headway serve`` up to the call into the launcher."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Sequence
from pathlib import Path

import pytest

from headway_tools.cli import main
from headway_tools.cli import serve as serve_command
from headway_tools.cli.serving.compilation import QUICK_PRICE
from headway_tools.console import Machine

PRESET = """
name = "night"
default_class = "only"
[batching]
seats = 96
window_ms = 0
[queue]
max_waiting = 5
[classes.only]
priority = 1
max_waiting = 5
queue_timeout_s = 5
total_timeout_s = 5
"""


def test_the_launcher_gets_the_model_our_defaults_and_then_the_words_of_the_user(
    launched: list[tuple[str, ...]], tmp_path: Path, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine's own number of seats is left to vLLM, whatever the presets say."""
    words = ["--host", "127.0.0.1", "--port", port, "--seed=-5"]
    assert main(["serve", str(tmp_path), "--preset", "serial", *words]) == 0
    assert launched == [(str(tmp_path), "--scheduling-policy", "priority", *words)]
    assert os.environ["HEADWAY_PRESET"] == "serial"
    assert "headway" in os.environ["VLLM_PLUGINS"].split(",")
    out, err = capsys.readouterr()
    assert out == ""
    assert f"http://127.0.0.1:{port}" in err
    assert "serial (bundled)\n  seats      fixed at 1\n" in err
    assert "off; set HEADWAY_ADMIN_TOKEN" in err


def test_the_preset_comes_from_the_option_then_the_environment_then_is_balanced(
    launched: list[tuple[str, ...]], tmp_path: Path, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The variable is the one plain ``vllm serve`` would read."""
    for words, variable, expected in (
        ([], None, "balanced"),
        ([], "throughput", "throughput"),
        (["--preset", "latency"], "throughput", "latency"),
    ):
        os.environ.pop("HEADWAY_PRESET", None)
        if variable is not None:
            os.environ["HEADWAY_PRESET"] = variable
        assert main(["serve", str(tmp_path), "--port", port, *words]) == 0
        assert os.environ["HEADWAY_PRESET"] == expected
        assert f"  preset     {expected} (bundled)\n" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--preset"], ["--preset-dir", "--no-warmup"]], ids=" ".join)
def test_presets_of_the_user_reach_the_plugin_and_change_no_number_of_the_engine(
    words: list[str], launched: list[tuple[str, ...]], tmp_path: Path, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a file or a folder; whether the engine has so many seats is known, and said, when it is there."""
    file = tmp_path / "night.toml"
    file.write_text(PRESET)
    value = str(file) if words == ["--preset"] else str(tmp_path)
    assert main(["serve", str(tmp_path), words[0], value, *words[1:], "--port", port]) == 0
    assert launched == [(str(tmp_path), "--scheduling-policy", "priority", "--port", port)]
    if words == ["--preset"]:
        assert os.environ["HEADWAY_PRESET"] == value
    else:
        assert (os.environ["HEADWAY_PRESET_DIR"], os.environ["HEADWAY_WARMUP"]) == (value, "0")
    assert _warnings(capsys) == []


ADAPTIVE = PRESET + '[limit]\npolicy = "model"\n'


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        (PRESET, [], "fixed at 96"),
        (ADAPTIVE, [], "starts at 96, up to the engine's ceiling"),
        (ADAPTIVE, ["--max-num-seqs", "200"], "starts at 96, up to the engine's 200"),
        (ADAPTIVE + "max_seats = 99\n", [], "starts at 96, up to 99"),
    ],
    ids=["fixed", "follows", "follows a number", "a top of its own"],
)
def test_the_banner_says_where_the_seats_start_and_how_far_they_reach(
    text: str,
    words: list[str],
    line: str,
    launched: list[tuple[str, ...]],
    tmp_path: Path,
    port: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A limit that follows the engine has no number of its own to show."""
    monkeypatch.setattr(serve_command, "_serve", lambda engine, *, own_launcher: 0)
    file = tmp_path / "night.toml"
    file.write_text(text)
    assert main(["serve", str(tmp_path), "--preset", str(file), "--port", port, *words]) == 0
    assert f"  preset     night ({file})\n  seats      {line}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "whose"),
    [(PRESET, "of preset night"), (ADAPTIVE, "with which preset night starts")],
    ids=["fixed", "follows"],
)
def test_fewer_engine_seats_than_the_preset_states_are_warned_about(
    text: str,
    whose: str,
    launched: list[tuple[str, ...]],
    tmp_path: Path,
    port: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The user's flag wins, and a warning explains its effect."""
    file = tmp_path / "night.toml"
    file.write_text(text)
    assert main(["serve", str(tmp_path), "--preset", str(file), "--port", port, "--max-num-seqs", "4"]) == 0
    assert launched[0][3:] == ("--port", port, "--max-num-seqs", "4")
    (line,) = _warnings(capsys)
    assert line == f"headway: warning: --max-num-seqs 4 is less than the 96 seats {whose}: 4 is the limit"


def test_a_file_that_asks_for_more_than_the_user_gives_the_engine_is_named(
    launched: list[tuple[str, ...]], tmp_path: Path, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one that is not used at the start, with its number."""
    file = tmp_path / "night.toml"
    file.write_text(PRESET)
    words = ["serve", str(tmp_path), "--preset-dir", str(tmp_path), "--preset", "serial", "--port", port]
    assert main([*words, "--max-num-seqs", "80"]) == 0
    assert main([*words, "--max-num-seqs", "96"]) == 0
    (line,) = _warnings(capsys)
    assert line.startswith(f"headway: warning: {file} asks for 96 seats (preset night), more than --max-num-seqs 80")


def _warnings(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if "warning" in line]


@pytest.fixture
def small_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's CPU build on two cores with 3 GiB of free memory."""
    machine = Machine(cores=(0, 1), cpus=2.0, node_bytes=(3 * 2**30,), group_bytes=None, compiles=True)
    monkeypatch.setattr(serve_command, "cpu_backend", lambda: True)
    monkeypatch.setattr(serve_command, "read_machine", lambda environ: machine)
    for name in ("VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "TORCHDYNAMO_DISABLE"):
        monkeypatch.delenv(name, raising=False)


def test_the_cpu_backend_gets_what_makes_it_start_here(
    launched: list[tuple[str, ...]], small_cpu: None, tmp_path: Path, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the environment, said in one line; what vLLM would do well by itself is not touched, on few cores neither."""
    assert main(["serve", str(tmp_path), "--port", port]) == 0
    assert launched == [(str(tmp_path), "--scheduling-policy", "priority", "--port", port)]
    assert os.environ["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert not {"TORCHDYNAMO_DISABLE", "VLLM_CPU_OMP_THREADS_BIND"} & os.environ.keys()
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "VLLM_CPU" in line)
    assert line.startswith("  CPU start  VLLM_CPU_KVCACHE_SPACE=1 ")


def test_a_quick_start_is_asked_for_and_says_its_price(
    launched: list[tuple[str, ...]], small_cpu: None, tmp_path: Path, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our flag is not passed on; what it stands for is."""
    assert main(["serve", str(tmp_path), "--quick-start", "--port", port]) == 0
    assert launched == [(str(tmp_path), "--scheduling-policy", "priority", "--enforce-eager", "--port", port)]
    assert os.environ["TORCHDYNAMO_DISABLE"] == "1"
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("  start "))
    assert line == f"  start      quick: {QUICK_PRICE}; --enforce-eager TORCHDYNAMO_DISABLE=1"


def test_a_quick_start_beside_a_flag_for_compilation_has_no_effect_and_says_so(
    launched: list[tuple[str, ...]], tmp_path: Path, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """vLLM's own flag wins."""
    assert main(["serve", str(tmp_path), "--quick-start", "-O3", "--port", port]) == 0
    assert "--enforce-eager" not in launched[0]
    out = capsys.readouterr().err
    assert "headway: warning: --quick-start has no effect: " in out
    assert "  start " not in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(
            ["--preset", "nope"],
            "serial, dynamic-latency, latency, interactive, balanced, dynamic, ",
            id="unknown preset lists the known",
        ),
        pytest.param(["--preset", "./nope.toml"], "cannot be read", id="no such file"),
        pytest.param(["--preset-dir", "/no/such"], "does not exist", id="no such folder"),
        pytest.param(["--port", "0"], "--port must be", id="bad port"),
    ],
)
def test_bad_input_ends_before_the_launcher(
    words: list[str],
    expected: str,
    launched: list[tuple[str, ...]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is half-started: one line, exit code 2."""
    assert main(["serve", str(tmp_path), *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("headway: error: ")
    assert err.count("\n") == 1
    assert expected in err
    assert launched == []


def test_an_engine_that_does_not_start_is_one_line_and_exit_code_one(
    launched: list[tuple[str, ...]], tmp_path: Path, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The launcher raises; the command prints the message."""
    assert main(["serve", str(tmp_path), "--port", port, "--fail"]) == 1
    assert capsys.readouterr().err.endswith("headway: error: the engine did not start: out of memory\n")


def test_the_help_of_vllm_is_its_own(launched: list[tuple[str, ...]]) -> None:
    """``--help=all`` needs no model and no preset."""
    assert main(["serve", "--help=all"]) == 0
    assert launched == [("--help=all",)]


@pytest.mark.parametrize(
    ("words", "config", "variable", "own"),
    [
        ([], "", "", False),
        ([], "", "0", False),
        ([], "", "1", True),
        (["--api-server-count", "1"], "", "1", True),
        (["--api-server-count", "3"], "", "", True),
        (["--api_server_count=2"], "", "", True),
        (["-asc", "4"], "", "", True),
        ([], "api-server-count: 5\n", "", True),
        (["--api-server-count", "1"], "api-server-count: 5\n", "", False),
        (["--api-server-count", "0"], "", "", False),
        (["--api-server-count", "many"], "", "", False),
        (["--api-server-count", "99999"], "", "", False),
    ],
)
def test_vllms_own_launcher_is_started_where_it_is_needed(
    launched: list[tuple[str, ...]],
    tmp_path: Path,
    port: str,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    config: str,
    variable: str,
    own: bool,
) -> None:
    """For several API servers, by the command line or the file, or the front end in Rust; what vLLM refuses is left to
    it.
    """
    started: list[Sequence[str]] = []
    module = types.ModuleType("headway.own_server.launch")
    module.serve = lambda words: started.append(words) or 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "headway.own_server.launch", module)
    monkeypatch.setenv("VLLM_USE_RUST_FRONTEND", variable)
    if config:
        (tmp_path / "serve.yaml").write_text(config)
        words = [*words, "--config", str(tmp_path / "serve.yaml")]
    assert main(["serve", str(tmp_path), "--port", port, *words]) == 0
    assert (len(started), len(launched)) == ((1, 0) if own else (0, 1))
