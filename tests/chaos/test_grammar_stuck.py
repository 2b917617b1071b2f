"""A grammar that takes the engine hours: its compilation is named, and ended with the engine once others wait for it.

Plain vLLM compiles on after its client has left, and serves no structured output meanwhile.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import cpu_count
from typing import Any

import requests
from engine_parts import long_form, ready
from generation_requests import body
from running_server import RunningServer, wait_until

PATTERN = "^(([a-z]{1,30}){1,30}){1,30}$"  # hours; every bound more multiplies it
HONEST = {"structured_outputs": {"json": {"type": "object", "properties": {"a": {"type": "integer"}}}}}


def asked(server: RunningServer, more: dict[str, Any], within_s: float = 170.0) -> requests.Response:
    """A completion of a few tokens with these parameters."""
    whole = body("/v1/completions", 4) | more
    return requests.post(f"{server.url}/v1/completions", json=whole, timeout=within_s)


def notes(server: RunningServer) -> list[str]:
    """What the readiness route says beside the reasons."""
    return list(requests.get(f"{server.url}/headway/readyz", timeout=20).json()["notes"])


@long_form("tests/plugin/supervision has it with a fake engine, tests/engine/test_grammars refuses such ones")
def test_a_grammar_that_keeps_others_waiting_ends_with_its_engine(chaos: RunningServer) -> None:
    """Its client leaves at once. It is named while nobody waits; then other structured outputs are served by the next
    engine, without an error."""
    chaos.use("chaos-grammars")
    before = chaos.status()["engine"]["deaths"]["hang"]
    for at in range((cpu_count() + 1) // 2):  # as many as vLLM compiles at once
        pattern = {"type": "string", "pattern": PATTERN.replace("z", chr(ord("z") - at % 20))}
        with suppress(requests.Timeout):
            asked(chaos, {"structured_outputs": {"json": pattern}}, within_s=1.0)
    wait_until(lambda: notes(chaos), "it is named", 60)
    assert chaos.scrape()("headway_engine_compiling_seconds") > 3
    with ThreadPoolExecutor(4) as pool:
        honest: list[Future[requests.Response]] = [pool.submit(asked, chaos, HONEST) for _ in range(4)]
        answers = [one.result() for one in honest]
    assert [one.status_code for one in answers] == [200] * 4, [one.text for one in answers]
    assert chaos.status()["engine"]["deaths"]["hang"] == before + 1
    wait_until(lambda: ready(chaos), "it is ready", 60)
    wait_until(lambda: not notes(chaos), "it is named no more")
    assert asked(chaos, HONEST).status_code == 200
