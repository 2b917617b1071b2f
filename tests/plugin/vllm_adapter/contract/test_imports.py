"""The adapter with the classes of the installed vLLM: imported for real, without an engine."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from forked import in_a_fork

from headway.admission.policy_client import PolicyClient, make_policy_class
from headway.vllm_adapter import launch
from headway.vllm_adapter.logs.format import log_json_lines

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client(root_levels: None) -> Any:
    """vLLM's engine client, a class."""
    return pytest.importorskip("vllm.v1.engine.async_llm").AsyncLLM


def test_the_policy_client_overrides_what_vllms_client_has(client: type[Any]) -> None:
    """Each method of the policy client replaces one of vLLM's, and takes no parameter that vLLM's lacks."""
    made = make_policy_class(client, None)  # type: ignore[arg-type]  # nothing is called
    own = {name for name, value in vars(PolicyClient).items() if inspect.isfunction(value) and name[0] != "_"}
    assert {"generate", "encode", "check_admission", "shutdown", "pause_generation", "sleep", "wake_up"} <= own
    made_here = {name for name in own if name in vars(made)}
    assert own - made_here == ({"check_admission"} if not hasattr(client, "check_admission") else set())  # before 0.29
    for name in made_here:
        theirs = inspect.signature(getattr(client, name)).parameters
        positional = [
            parameter.name
            for parameter in inspect.signature(getattr(PolicyClient, name)).parameters.values()
            if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        assert [name for name in positional if name not in theirs] == []


def test_the_stat_logger_is_one_of_vllms(client: type[Any]) -> None:
    """The logger derives from vLLM's base, and can be made: no abstract method is left."""
    module = importlib.import_module("headway.vllm_adapter.stats")
    assert not inspect.isabstract(module.HeadwayStatLogger)
    assert module.HeadwayStatLogger(None).listener is None


@pytest.mark.parametrize(
    ("modules", "name"),
    [
        (launch._ARGUMENTS, "make_arg_parser"),
        (launch._ARGUMENTS, "validate_parsed_serve_args"),
        (launch._SERVERS, "run_server"),
        (launch._STARTUP, "cli_env_setup"),
    ],
)
def test_the_launcher_finds_its_parts(client: type[Any], modules: tuple[str, ...], name: str) -> None:
    """`headway serve` calls functions of vLLM's own command."""
    assert callable(launch._find(modules, name))


def test_the_general_plugin_adds_its_methods_to_engine_core(client: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit, the holds and the cache clearing are callable as utility methods."""
    hooks = importlib.import_module("headway.vllm_adapter.engine_core_hooks")
    core = importlib.import_module("vllm.v1.engine.core")
    stand_in = type("EngineCore", (core.EngineCore,), {})
    monkeypatch.setattr(core, "EngineCore", stand_in)
    monkeypatch.setattr(core, "EngineCoreProc", type("EngineCoreProc", (stand_in,), {}))
    monkeypatch.setattr(hooks, "watch_starts", lambda *_: None)
    monkeypatch.setattr(hooks, "yield_cpu", lambda: None)
    hooks.register()
    for name in (hooks.GET_LIMITS, hooks.SET_LIMITS, hooks.CLEAR_WORKERS, hooks.GET_DISPATCH_BLOCKS, hooks.GET_MEMORY):
        assert callable(getattr(stand_in, name))


@pytest.mark.parametrize(
    ("words", "timeout_s"),
    [
        (["m"], launch.DRAIN_S),
        (["m", "--shutdown-timeout", "0"], 0),
        (["m", "--shutdown_timeout=0"], 0),
        (["m", "--shutdown-timeout", "7"], 7),
        (["m", "--config", "serve.yaml"], 0),
    ],
)
def test_a_time_to_drain_is_given_where_nobody_has_set_one(
    client: type[Any], words: list[str], timeout_s: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in vLLM's file, and with underscores; 0 is a choice, too."""
    monkeypatch.chdir(tmp_path)
    Path("serve.yaml").write_text("shutdown-timeout: 0\n")
    if not hasattr(launch.parse(["m"]), "shutdown_timeout"):
        pytest.skip("this vLLM does not drain")
    assert launch.parse(words).shutdown_timeout == timeout_s


@pytest.mark.parametrize(
    ("words", "close"),
    [
        (["m", "--presett", "latency"], "--preset"),
        (["m", "--max-num-seqqs=4"], "--max-num-seqs"),
        (["m", "--xyz"], None),
    ],
)
def test_an_unknown_flag_of_serve_is_named_under_a_short_usage(
    client: type[Any], words: list[str], close: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the closest flag of Headway's and vLLM's, and the exit code of wrong usage."""
    with pytest.raises(SystemExit) as ended:
        launch.parse(words)
    usage, more, error = capsys.readouterr().err.splitlines()[-3:]
    assert ended.value.code == 2
    assert usage.startswith("usage: headway serve MODEL [--preset NAME|FILE]")
    assert "--help=all" in more
    assert error.startswith("headway: error: unrecognized arguments: ")
    assert error.endswith(f"; did you mean {close}?") is (close is not None)


def test_vllms_set_up_of_logging_makes_json_lines(client: type[Any]) -> None:
    """In a fork: what vLLM configures before and after, and in its children."""

    def printed() -> str:
        sys.stdout = written = io.StringIO()
        set_up = importlib.import_module("vllm.logger")._configure_vllm_root_logger
        set_up()
        log_json_lines()
        logging.getLogger("vllm.a").warning("before")
        set_up()
        logging.getLogger("vllm.a").warning("after")
        return written.getvalue()

    lines = in_a_fork(printed, {"HEADWAY_LOG_FORMAT": "json", "VLLM_LOGGING_LEVEL": "WARNING"}).splitlines()
    assert [json.loads(line)["message"] for line in lines] == ["before", "after"]
