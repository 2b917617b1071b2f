"""The API server is killed (C3): its engine does not outlive it. Plain vLLM leaves EngineCore and its worker behind."""

from __future__ import annotations

from pathlib import Path

import psutil
from engine_parts import engine_processes
from running_server import RunningServer


def test_no_engine_outlives_a_killed_server(real_engine: None, tmp_path: Path) -> None:
    """SIGKILL, which nobody can catch: five seconds later no process of it is left."""
    server = RunningServer.headway(tmp_path / "server.log", "--preset", "tight", "--no-warmup").start()
    assert server.process is not None
    engine = engine_processes(server)
    try:
        assert engine
        server.process.kill()
        server.process.wait(10)
        left = psutil.wait_procs(engine, timeout=5)[1]
        assert left == []
    finally:
        for one in server.left():
            one.kill()
