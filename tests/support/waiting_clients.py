"""Four clients of a server of two seats, each in a process of its own: two of their requests run and two wait."""

from __future__ import annotations

import subprocess
import sys

from generation_requests import body
from running_server import RunningServer, wait_until


def four_clients(server: RunningServer) -> list[subprocess.Popen[bytes]]:
    """Two of their requests run and two wait. However slowly the clients start, none is answered before all wait."""
    assert server.admin("POST", "pause", json={"reason": "a test"}).status_code == 200
    clients = [subprocess.Popen(_curl(server), stdout=subprocess.PIPE) for _ in range(4)]
    try:
        wait_until(lambda: server.status()["queued"] == 4, "all four wait")
        assert server.admin("POST", "resume", json={"reason": "a test"}).status_code == 200
        assert server.status()["queued"] == 2
    except BaseException:
        for client in clients:
            client.kill()
            client.communicate()
        raise
    return clients


def _curl(server: RunningServer) -> list[str]:
    """One of them."""
    code = (
        "import sys, requests; r = requests.post(sys.argv[1], json=eval(sys.argv[2]), timeout=300,"
        " headers={'x-headway-class': 'realtime'}); print(r.status_code, end='')"
    )
    return [sys.executable, "-c", code, f"{server.url}/v1/completions", repr(body("/v1/completions", 500))]
