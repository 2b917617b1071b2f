"""Memory maintenance while the server runs: caches are cleared after a large job, an engine is recycled."""

from __future__ import annotations

import httpx
import psutil
import requests
from client_accounting import ClientGroup, mixed
from engine_parts import engine_core, long_form
from running_server import RunningServer, wait_until

CACHES = ("prefix", "worker", "heap")


def _large_job(server: RunningServer) -> float:
    """How many tokens of a long prompt the engine found in its prefix cache."""
    before = server.scrape()("vllm:prefix_cache_hits_total")
    body = {"model": "tiny", "prompt": "word " * 700, "max_tokens": 5, "ignore_eos": True}
    answer = requests.post(f"{server.url}/v1/completions", json=body, timeout=60)
    assert answer.status_code == requests.codes.ok, answer.text
    server.settle()
    return server.scrape()("vllm:prefix_cache_hits_total") - before


def test_caches_are_cleared_behind_a_large_job(chaos: RunningServer) -> None:
    """The engine itself finds nothing any more of a prompt that it has just seen; workers and heap are cleared too."""
    _large_job(chaos)
    assert _large_job(chaos) > 0, "vLLM caches no prefixes: there is nothing to clear"
    chaos.use("chaos-tidy")
    before = chaos.scrape()
    _large_job(chaos)

    def cleared() -> list[bool]:
        now = chaos.scrape()
        name = "headway_cache_clears_total"
        return [now(name, cache=cache) > before(name, cache=cache) for cache in CACHES]

    wait_until(lambda: all(cleared()), "all three are cleared")
    assert _large_job(chaos) == 0
    chaos.use("chaos")


@long_form("two engines more; tests/plugin/supervision has it with a fake engine, and beside it the spare one")
async def test_a_recycled_engine_loses_no_request(chaos: RunningServer) -> None:
    """By command: the old engine serves while the new one starts beside it; then they are swapped, under load.

    Nothing is left of the old one, and no third one was started.
    """
    before, deaths = engine_core(chaos), chaos.status()["engine"]["deaths"]
    processes = set(_below(chaos))
    assert chaos.admin("POST", "recycle", json={"reason": "test"}).status_code == httpx.codes.ACCEPTED
    wait_until(lambda: set(_below(chaos)) - processes, "the new engine begins to start")
    served = [_served_by_the_old_engine(chaos, before) for _ in range(3)]
    assert any(served), "no request was served before the engines were swapped"
    chaos.settle()
    while chaos.status()["memory"]["recycling"]:
        group = ClientGroup(chaos, mixed(12))
        await group.run()
        assert group.audit()["completed"] == len(group.clients)
    assert "s: started beside the old engine" in _last_result(chaos)
    assert chaos.status()["memory"]["recycle_form"] == "beside the old engine"
    assert not before.is_running()
    assert engine_core(chaos).pid != before.pid
    wait_until(lambda: len(_below(chaos)) == len(processes), "as many processes are left as there were")
    assert chaos.status()["engine"]["deaths"] == {**deaths, "recycle": deaths["recycle"] + 1}
    assert chaos.scrape()("headway_recycles_total", trigger="command") >= 1


def _below(server: RunningServer) -> list[psutil.Process]:
    """All processes below the server."""
    assert server.process is not None
    return psutil.Process(server.process.pid).children(recursive=True)


def _served_by_the_old_engine(server: RunningServer, old: psutil.Process) -> bool:
    """A request is answered whole; whether dispatch was never suspended and the old core lived when it was."""
    body = {"model": "tiny", "prompt": "word", "max_tokens": 4, "ignore_eos": True}
    answer = requests.post(f"{server.url}/v1/completions", json=body, timeout=120)
    assert answer.status_code == requests.codes.ok, answer.text
    status = server.status()
    return bool(old.is_running() and status["state"] == "open" and status["memory"]["recycling"])


def _last_result(server: RunningServer) -> str:
    """What the audit has of the last recycle."""
    entries = server.admin("GET", "audit").json()["entries"]
    return str(next(entry["result"] for entry in entries if entry["action"] == "recycle_engine"))
