"""The hook that runs before a server in Kubernetes gets SIGTERM, against a server whose queue empties."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

HOOK = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes" / "base" / "empty_queue.py"


class Queue(ThreadingHTTPServer):
    """Serves metrics; the queue is one shorter at each scrape, down to ``shortest``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Metrics)
        self.depth, self.shortest, self.scrapes, self.status = 3, 0, 0, 200


class Metrics(BaseHTTPRequestHandler):
    """One answer: the text of the metrics."""

    server: Queue

    def do_GET(self) -> None:
        queue = self.server
        queue.scrapes += 1
        body = (
            "# HELP headway_queue_depth Requests waiting for a seat.\n# TYPE headway_queue_depth gauge\n"
            f'headway_queue_depth{{class="normal"}} {queue.depth}.0\nheadway_queue_depth{{class="batch"}} 0.0\n'
            'headway_queue_tokens{class="normal"} 99.0\n'
        ).encode()
        queue.depth = max(queue.shortest, queue.depth - 1)
        self.send_response(queue.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def queue() -> Iterator[Queue]:
    server = Queue()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def hook(queue: Queue, at_most_s: float) -> subprocess.CompletedProcess[str]:
    """The hook, run as the container runs it."""
    command = [sys.executable, "-I", HOOK, f"--url=http://127.0.0.1:{queue.server_port}", f"--at-most={at_most_s}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_it_waits_until_nobody_waits(queue: Queue) -> None:
    """Three wait, then two, one and none: the fourth scrape is the last one."""
    assert hook(queue, 25).returncode == 0
    assert queue.scrapes == 4


def test_it_waits_no_longer_than_it_may(queue: Queue) -> None:
    """A queue that does not empty is left to SIGTERM."""
    queue.shortest = 1
    assert hook(queue, 0.2).returncode == 0
    assert 1 <= queue.scrapes < 4


@pytest.mark.parametrize("status", [401, 500])
def test_metrics_that_are_closed_do_not_hold_it_up(queue: Queue, status: int) -> None:
    """It says why, and succeeds: a hook that fails would not keep the server alive either."""
    queue.status = status
    done = hook(queue, 25)
    assert done.returncode == 0
    assert str(status) in done.stdout
    assert queue.scrapes == 1


def test_a_server_that_is_gone_does_not_hold_it_up() -> None:
    """Nothing listens on the port."""
    command = [sys.executable, "-I", HOOK, "--url=http://127.0.0.1:1", "--at-most=25"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0
    assert "not waited for" in done.stdout
