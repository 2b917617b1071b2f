"""`headway route` as a process, in front of stand-ins or of real servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import requests
from running_server import RunningServer, ending_with_us, free_port, wait_until

STAND_IN = Path(__file__).with_name("stand_in_instance.py")


@dataclass
class StandIn:
    """One stand-in on a free port; a context manager."""

    step_s: float = 0.01
    seats: int = 4
    how: str = "well"
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def name(self) -> str:
        """Its name in the router's metrics."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> StandIn:
        """Start it, and wait until it answers."""
        words = [sys.executable, str(STAND_IN), str(self.port), str(self.step_s), str(self.seats), self.how]
        self.process = subprocess.Popen(ending_with_us(words))
        wait_until(self._answers, "the stand-in answers", 60)
        return self

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server itself."""
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> None:
        """Kill it, and wait for its end."""
        if self.process is not None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
            self.process.wait(10)
            self.process = None

    def seen(self) -> list[str]:
        """The prompts that it got."""
        return list(requests.get(f"{self.url}/requests", timeout=10).json()["seen"])

    def running(self) -> int:
        """The requests that it runs."""
        return int(requests.get(f"{self.url}/requests", timeout=10).json()["running"])

    def peak(self) -> int:
        """The most requests that it ever ran at once."""
        return int(requests.get(f"{self.url}/requests", timeout=10).json()["peak"])

    def __enter__(self) -> StandIn:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.end()

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/health", timeout=2).ok
        except requests.RequestException:
            return False


class RunningRouter(RunningServer):
    """`headway route` in front of these URLs."""

    @classmethod
    def before(cls, log_path: Path, urls: Sequence[str], *flags: str, **environment: str) -> RunningRouter:
        """Not started yet; without a warm-up, whose requests the instances would count."""
        command = [sys.executable, "-m", "headway", "route", "--instances", ",".join(urls), *flags]
        usual = {"HEADWAY_TRUSTED_PROXIES": "127.0.0.1", "HEADWAY_WARMUP": "0"}
        return cls(command, log_path, {**usual, **environment})

    def launch(self) -> RunningRouter:
        """Start it, and wait for nothing."""
        command = ending_with_us([*self.command, "--port", str(self.port)])
        environment = {**os.environ, "HEADWAY_ADMIN_TOKEN": self.token, **self.environment}
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
            )
        return self

    def settle(self) -> None:
        """Wait until nothing waits or runs."""
        names = ("headway_queue_depth", "headway_in_flight", "headway_seats_taken")
        wait_until(lambda: not any(self.scrape()(name) for name in names), "the queue is empty", 60)
