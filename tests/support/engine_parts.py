"""The processes of the engine behind a running server, and its readiness."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psutil
import requests
from client_accounting import TOTALS, ClientGroup
from running_server import RunningServer
from tiers import LONG
from tiers import long_form as long_form

#: The long form tries each fault ten times.
ROUNDS = 10 if LONG else 1


def ready(server: RunningServer) -> bool:
    """Whether the server reports that it is ready."""
    return bool(server.status()["ready"])


def resident_bytes(server: RunningServer) -> int:
    """Of the API server."""
    assert server.process is not None
    return int(psutil.Process(server.process.pid).memory_info().rss)


def engine_processes(server: RunningServer) -> list[psutil.Process]:
    """EngineCore and its workers, as they are now."""
    assert server.process is not None
    children = psutil.Process(server.process.pid).children(recursive=True)
    return [one for one in children if "VLLM::" in " ".join(one.cmdline())]


def engine_core(server: RunningServer) -> psutil.Process:
    """EngineCore, as it is now."""
    (core,) = [one for one in engine_processes(server) if "EngineCore" in " ".join(one.cmdline())]
    return core


def session(server: RunningServer) -> list[psutil.Process]:
    """Every live process of the server's session, whatever its present parent."""
    assert server.process is not None
    found = []
    for one in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.Error):
            if os.getsid(one.pid) == server.process.pid and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


def killers(server: RunningServer) -> list[psutil.Process]:
    """The processes that wait for the end of the server and of EngineCore, to end what would outlive them."""
    assert server.process is not None
    children = psutil.Process(server.process.pid).children(recursive=True)
    return [one for one in children if any("orphan_killer" in word for word in one.cmdline())]


def order(orders: Path, what: str) -> None:
    """Order a fault from the engine's fault plugin."""
    TOTALS["faults"] += 1
    orders.write_text(what)


def kill(process: psutil.Process) -> None:
    """SIGKILL, and one fault more on the list."""
    TOTALS["faults"] += 1
    process.kill()


def health(server: RunningServer) -> int:
    """The status of vLLM's own health route."""
    return requests.get(f"{server.url}/health", timeout=5).status_code


def busy(server: RunningServer, group: ClientGroup, seats: int) -> bool:
    """Whether all seats are taken, others wait, and a stream flows."""
    status = server.status()  # a scrape as well would take too long on a busy machine
    flows = any(one.stream and one.status is not None and not one.ended for one in group.clients)
    return bool(flows and status["in_flight"] == seats and status["queued"] > 3)
