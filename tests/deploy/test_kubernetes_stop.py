"""The hook that runs before a server in Kubernetes gets SIGTERM, against a server whose queue empties."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from handler_server import Answer, Asked, answering

HOOK = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes" / "base" / "empty_queue.py"


@dataclass
class Queue:
    """Metrics of a server whose queue is one shorter at each scrape, down to ``shortest``."""

    url: str = ""
    depth: int = 3
    shortest: int = 0
    scrapes: int = 0
    status: int = 200

    def answer(self, request: Asked) -> Answer:
        """One scrape."""
        self.scrapes += 1
        body = (
            "# HELP headway_queue_depth Requests waiting for a seat.\n# TYPE headway_queue_depth gauge\n"
            f'headway_queue_depth{{class="normal"}} {self.depth}.0\nheadway_queue_depth{{class="batch"}} 0.0\n'
            'headway_queue_tokens{class="normal"} 99.0\n'
        ).encode()
        self.depth = max(self.shortest, self.depth - 1)
        return Answer(self.status, body)


@pytest.fixture
def queue() -> Iterator[Queue]:
    found = Queue()
    with answering(found.answer) as found.url:
        yield found


def hook(url: str, at_most_s: float = 25) -> subprocess.CompletedProcess[str]:
    """The hook, run as the container runs it."""
    command = [sys.executable, "-I", HOOK, f"--url={url}", f"--at-most={at_most_s}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_it_waits_until_nobody_waits(queue: Queue) -> None:
    """Three wait, then two, one and none: the fourth scrape is the last one."""
    assert hook(queue.url).returncode == 0
    assert queue.scrapes == 4


def test_it_waits_no_longer_than_it_may(queue: Queue) -> None:
    """A queue that does not empty is left to SIGTERM."""
    queue.shortest = 1
    assert hook(queue.url, 0.2).returncode == 0
    assert 1 <= queue.scrapes < 4


@pytest.mark.parametrize("status", [401, 500])
def test_metrics_that_are_closed_do_not_hold_it_up(queue: Queue, status: int) -> None:
    """The hook says why, and succeeds: a hook that fails would not keep the server alive either."""
    queue.status = status
    done = hook(queue.url)
    assert done.returncode == 0
    assert str(status) in done.stdout
    assert queue.scrapes == 1


def test_a_server_that_is_gone_does_not_hold_it_up() -> None:
    """Nothing listens on the port."""
    done = hook("http://127.0.0.1:1")
    assert done.returncode == 0
    assert "not waited for" in done.stdout
