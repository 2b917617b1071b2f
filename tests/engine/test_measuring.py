"""The commands that measure, and the window that adapts itself, on the real engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from client_connections import CONNECTIONS
from concurrent_requests import Answer, ask, send_all, statuses
from engine_parts import long_form
from running_server import OFFLINE, RunningServer

from headway_tools.load.ramp import LOADS, TURNED

WINDOW_MS = 3000  # of the preset adaptive4


def headway(server: RunningServer, *words: str) -> dict[str, Any]:
    """What a command says of the server, as JSON."""
    environment = {**os.environ, **OFFLINE, "HEADWAY_ADMIN_TOKEN": server.token}
    command = [sys.executable, "-m", "headway", words[0], "--url", server.url, *words[1:], "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout))


@long_form("tests/tools/cli/measuring/test_bench has the same ramp with a stand-in of a server")
def test_a_ramp_ends_where_the_latency_turns(server: RunningServer, tmp_path: Path) -> None:
    """Without objectives nothing is refused: with the load the tokens a second grow, and then the latency."""
    server.use("throughput")
    drawn = tmp_path / "ramp.html"
    words = ("--ramp", "--duration", "4", "--measure", "4", "--clients", "64", "--html", str(drawn))
    answer = headway(server, "bench", *words)
    steps = answer["steps"]
    assert [one["load"] for one in steps] == [*LOADS][: len(steps)]
    assert len(steps) == len(LOADS) or steps[-1]["first_token_p95_ms"] >= TURNED * steps[0]["first_token_p95_ms"]
    assert steps[-1]["first_token_p95_ms"] > steps[0]["first_token_p95_ms"]
    assert max(one["tokens_per_s"] for one in steps) > 2 * steps[0]["tokens_per_s"]
    assert answer["knee"] in steps
    assert "Throughput and latency" in drawn.read_text(encoding="utf-8")


@long_form("tests/tools/cli/measuring/test_tune has the same sweep with the gate around a fake engine")
def test_a_tuner_sweeps_the_seats_of_an_engine_and_puts_them_back(server: RunningServer, tmp_path: Path) -> None:
    """Each step has the engine's own figures with as many seats as it set; the preset is in force again."""
    server.use("throughput")
    file = tmp_path / "tuned.toml"
    words = ("--with-load", "--seats", "4,16", "--settle", "1", "--measure", "4", "--out", str(file))
    answer = headway(server, "tune", *words)
    few, many = (next(one for one in answer["steps"] if one["seats"] == seats) for seats in (4, 16))
    assert few["mean_batch"] <= 4 < many["mean_batch"] <= 16
    assert all(one["tokens_per_s"] > 0 and one["inter_token_mean_s"] > 0 for one in (few, many))
    assert f"seats = {answer['seats']}" in file.read_text(encoding="utf-8")
    status = server.status()
    assert (status["preset"]["name"], status["limit"]["ordered"]) == ("throughput", None)
    server.use("balanced")
    server.settle()


@long_form("tests/policies/batching/test_window has each region of the window with a clock of its own")
async def test_an_adaptive_window_learns_when_others_come(server: RunningServer) -> None:
    """One request after another waits for no other, once the window has learnt how long they take; requests that come
    together still share a batch."""
    server.use("adaptive4")
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        alone = [await ask(client, server, "normal", 30, True) for _ in range(10)]
    assert _waited_ms(alone[0]) >= WINDOW_MS
    assert max(_waited_ms(one) for one in alone[-3:]) < WINDOW_MS / 2
    before = server.scrape()
    together = await send_all(server, [("normal", 200, True)] * 24)
    after = server.scrape()
    assert statuses(together) == {200: 24}
    sequences, steps = (
        after(f"headway_batch_size_{one}") - before(f"headway_batch_size_{one}") for one in ("sum", "count")
    )
    assert sequences > 2 * steps


def _waited_ms(answer: Answer) -> int:
    return int(answer.headers["x-headway-queue-ms"])
