"""Fault injection against one real server on the real engine. The short form is one round of each fault, the long one
ten."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client_connections import drop_connections
from engine_parts import ready
from handler_server import Answer, Asked, answering
from running_server import OFFLINE, RunningServer, wait_until

FAULTS = Path(__file__).parents[1] / "support" / "faults"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="session")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file from which the engine's fault plugin reads its orders (tests/support/faults)."""
    return tmp_path_factory.mktemp("faults") / "orders"


@pytest.fixture(scope="session")
def another_model() -> Iterator[str]:
    """The base URL of another model: a stub of OpenAI's API."""
    with answering(_all_pieces_at_once) as url:
        yield f"{url}/v1"


def _all_pieces_at_once(request: Asked) -> Answer:
    """A stream of as many pieces as are asked for. A word of the prompt is a token."""
    asked = json.loads(request.body)
    usage = {"prompt_tokens": len(asked["prompt"].split()), "completion_tokens": asked["max_tokens"]}
    events: list[dict[str, Any]] = [{"choices": [{"text": "a"}]}] * asked["max_tokens"]
    lines = [json.dumps(event) for event in [*events, {"choices": [], "usage": usage}]]
    stream = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])
    return Answer(body=stream.encode(), headers={"Content-Type": "text/event-stream"})


@pytest.fixture(scope="session")
def chaos_server(
    real_engine: None, orders: Path, another_model: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """`headway serve` with the tests' fault plugin in its engine. No warm-up: vLLM's counters count clients alone."""
    log_path = tmp_path_factory.mktemp("chaos") / "server.log"
    environment = {
        "PYTHONPATH": os.pathsep.join((str(FAULTS), OFFLINE["PYTHONPATH"])),
        "HEADWAY_TEST_FAULT": str(orders),
        "HEADWAY_USAGE_DB": str(log_path.with_name("usage.db")),
        "HEADWAY_FALLBACK_URL": another_model,
        "HEADWAY_FALLBACK_MODEL": "small",
        "HEADWAY_ALLOW_DEV_MODE": "1",
        "HEADWAY_MAX_GRAMMAR_SECONDS": "0",  # the engine compiles whatever it is asked for
        "VLLM_SERVER_DEV_MODE": "1",  # mounts /pause, /sleep and what belongs to them
    }
    with RunningServer.headway(log_path, "--preset", "chaos", "--no-warmup", **environment) as server:
        yield server


@pytest.fixture
def chaos(chaos_server: RunningServer, orders: Path) -> Iterator[RunningServer]:
    """That server, ready and at rest before and after."""
    wait_until(lambda: ready(chaos_server), "the server is ready", 120)
    chaos_server.use("chaos")
    chaos_server.settle()
    yield chaos_server
    drop_connections()
    orders.unlink(missing_ok=True)
    wait_until(lambda: ready(chaos_server), "the server is ready again", 120)
