"""Failed starts with one clear line, and ends that leave no process; test_warmup.py ends its server by SIGTERM."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from engine_parts import ROUNDS, long_form, session
from running_server import (
    ENGINE_FLAGS,
    OFFLINE,
    TINY_MODEL,
    RunningServer,
    free_port,
    wait_until,
)
from waiting_clients import four_clients

from headway_tools.console import read_machine


def _serve(*arguments: str, timeout_s: float = 240, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headway", "serve", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **OFFLINE, **environment},
        check=False,
    )


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.strip().splitlines()[-1]


def _descendants() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


@long_form("tests/plugin: vllm_adapter/process/test_death_cause keeps the first error, cli/test_serve prints it")
def test_an_engine_that_cannot_start_ends_in_one_clear_line(real_engine: None) -> None:
    """A context longer than the model's: exit 1, the last line names the cause, and no process remains."""
    before = _descendants()
    arguments = [flag for flag in ENGINE_FLAGS if flag not in ("--max-model-len", "2048")]
    done = _serve(str(TINY_MODEL), *arguments, "--max-model-len", "99999999", "--port", str(free_port()))
    assert done.returncode == 1, done.stderr[-2000:]
    assert _last_line(done).startswith("headway: error: the engine did not start:")
    assert "max_model_len" in _last_line(done) or "99999999" in _last_line(done)
    assert _descendants() <= before


@long_form("tests/plugin: vllm_adapter/process/test_death_cause keeps the first error, cli/test_serve prints it")
def test_an_error_of_the_engines_worker_is_the_last_line(real_engine: None) -> None:
    """A KV cache larger than the memory: vLLM's server says only that its engine failed, and its worker says why."""
    before = _descendants()
    done = _serve(str(TINY_MODEL), *ENGINE_FLAGS, "--port", str(free_port()), VLLM_CPU_KVCACHE_SPACE="100000")
    assert done.returncode == 1, done.stderr[-2000:]
    assert _last_line(done).startswith("headway: error: the engine did not start: Available memory on node")
    assert "requested memory for kv" in _last_line(done)
    assert _descendants() <= before


@long_form("tests/plugin/vllm_adapter/process/test_interrupted_start has it with a program that stands for the server")
@pytest.mark.parametrize(
    ("number", "code"),
    [pytest.param(signal.SIGTERM, 0, id="SIGTERM"), pytest.param(signal.SIGINT, 130, id="Ctrl-C")],
)
def test_a_signal_ends_a_start_with_all_its_processes(
    number: signal.Signals, code: int, real_engine: None, tmp_path: Path
) -> None:
    """Its worker is stopped, so that the engine never gets ready, and running requests would have five minutes: there
    are none, so nothing is waited for."""
    server = RunningServer.headway(tmp_path / "server.log", "--shutdown-timeout", "300").launch()
    assert server.process is not None
    try:
        wait_until(lambda: len(_engine_processes(server)) == 2, "its worker begins to import", 240)
        worker = max(_engine_processes(server), key=lambda one: one.create_time())
        worker.suspend()
        server.process.send_signal(number)
        assert server.process.wait(60) == code, server.log()[-2000:]
        wait_until(lambda: session(server) == [], "no process is left")
    finally:
        server.process.kill()
        server.process.wait(10)
        for one in session(server):
            one.kill()
    assert "headway: error" not in server.log()


def _engine_processes(server: RunningServer) -> list[psutil.Process]:
    """EngineCore and its worker, also before they bear their names."""
    words = {one: " ".join(one.cmdline()) for one in session(server)}
    return [one for one, line in words.items() if "spawn_main" in line or "VLLM::" in line]


def test_a_taken_port_is_refused_before_the_engine_loads(real_engine: None) -> None:
    """Exit 2 at once, and the line names the port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = _serve(str(TINY_MODEL), *ENGINE_FLAGS, "--port", str(port), timeout_s=60)
    assert done.returncode == 2
    assert str(port) in _last_line(done)


@long_form("tests/plugin/supervision finds it with a fake engine, test_warmup ends one without a spare")
def test_sigterm_while_a_spare_engine_starts_ends_everything(real_engine: None, tmp_path: Path) -> None:
    """A recycle has begun to start the new engine beside the old one: exit code 0, and neither of them remains."""
    server = RunningServer.headway(tmp_path / "server.log", "--preset", "tight", "--no-warmup").start()
    try:
        assert server.admin("POST", "recycle", json={"reason": "test"}).status_code == 202
        wait_until(lambda: len(_engine_processes(server)) > 2, "the new engine begins to start")
        assert server.status()["memory"]["recycle_form"] == "beside the old engine"
        assert server.stop() == 0, server.log()[-2000:]
        wait_until(lambda: session(server) == [], "no process is left")
        assert [line for line in server.log().splitlines() if "ERROR" in line and "[headway/" in line] == []
    finally:
        if server.process is not None and server.process.poll() is None:
            server.process.kill()


@long_form("test_plain_vllm has the answers and the exit code of a server that does not replace its engine")
def test_a_dead_engine_is_a_503_and_exit_code_1(real_engine: None, tmp_path: Path) -> None:
    """EngineCore is killed with two requests running and two waiting: all four get 503 with Retry-After, none counts
    as completed, and the process ends with exit code 1 and leaves no process. In the long form it started as it does
    by itself: compiled, as vLLM is."""
    server = RunningServer.headway(tmp_path / "server.log", "--preset", "tight", "--no-warmup")
    server.chooses = ROUNDS > 1
    server.start()
    try:
        log = server.log()
        chosen = [line for line in log.splitlines() if line.startswith("  CPU start  ")]
        if not server.chooses:  # the type of the weights alone is left to choose
            assert len(chosen) == read_machine(os.environ).slow_16bit
            assert all("VLLM_CPU_KVCACHE_SPACE=" not in one for one in chosen)
        assert f"enforce_eager={not server.chooses}" in log
        (core,) = [child for child in server.children if "EngineCore" in " ".join(child.cmdline())]
        clients = four_clients(server)
        core.kill()
        answers = [client.communicate(timeout=60)[0].decode() for client in clients]
        assert server.process is not None
        code = server.process.wait(60)
    finally:
        server.stop()
    assert answers == ["503"] * 4
    assert code == 1, server.log()[-2000:]
    assert "\nheadway: error: the engine died while it was serving" in server.log()
    assert server.left() == []
