"""A real fleet in a child process, and closed loops of clients that account for every request."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import requests
from headway_fleet.server import addresses
from running_server import (
    ENGINE_FLAGS,
    OFFLINE,
    PRESETS,
    ROOT,
    TINY_MODEL,
    Scrape,
    ending_with_us,
    free_port,
    wait_until,
)

#: Several engines share the cores of one machine.
START_S = 600.0
#: Of one replica, by its preset.
SEATS = 4
_FLAGS = tuple(flag for flag in ENGINE_FLAGS if flag not in ("--host", "127.0.0.1"))
_SERVE = (str(TINY_MODEL), "--served-model-name", "tiny", "--preset", "continuous4", *_FLAGS)
_DEPLOY = """
import json, sys
import ray
from ray import serve
from headway_fleet.app import build
ray.init(sys.argv[1], namespace="headway", log_to_driver=False)
serve.run(build(json.loads(sys.argv[2])), name="headway", route_prefix="/")
"""


@dataclass
class FleetProcess:
    """The command of `make fleet` on the tiny model, four seats a replica; a context manager."""

    folder: Path
    replicas: int
    most: int
    scaling: dict[str, float] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients ask."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log_path(self) -> Path:
        """What the command prints."""
        return self.folder / "fleet.log"

    def __enter__(self) -> FleetProcess:
        options = ["--replicas", str(self.replicas), "--most", str(self.most), "--port", str(self.port)]
        options += ["--folder", str(self.folder), "--scaling", json.dumps(self.scaling)]
        command = [sys.executable, "-m", "headway_fleet", *options, "--", *_SERVE]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                ending_with_us(command), stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=_environment()
            )
        try:
            wait_until(self._answers_or_ended, "the fleet answers", START_S)
            assert self.process.poll() is None, self.log_path.read_text(errors="replace")[-4000:]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """SIGTERM, which drains; what remains is killed."""
        assert self.process is not None
        below = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(150)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for left in psutil.wait_procs(below, timeout=20)[1]:
            with suppress(psutil.NoSuchProcess):
                left.kill()

    def servers(self) -> dict[str, str]:
        """The addresses of the servers that are warm, by replica."""
        return addresses(self.folder)

    def ready(self) -> list[str]:
        """The replicas whose servers are ready."""
        return [name for name, address in self.servers().items() if _is_ready(address)]

    def wait_for(self, number: int) -> None:
        """Wait until so many servers are there, and ready."""
        wait_until(lambda: len(self.servers()) == number == len(self.ready()), f"{number} replicas are ready", START_S)

    def deploy_again(self) -> None:
        """Deploy a new version of the application, with one replica; returns when the old one is gone."""
        (address,) = re.findall(r"Ray is at (\S+)", self.log_path.read_text(errors="replace"))
        given = {
            "serve": _SERVE,
            "folder": str(self.folder),
            "resources": {"num_cpus": 0},
            "drain_s": 100.0,  # another setting makes it another version
            "scaling": {"minimum": 1, "maximum": 1},
        }
        command = [sys.executable, "-c", _DEPLOY, address, json.dumps(given)]
        environment = {**_environment(), "RAY_AUTH_MODE": "token"}  # the one that Ray has made for this user
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=START_S, check=False)
        assert done.returncode == 0, done.stderr[-4000:]

    def total(self, metric: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels, over all servers."""
        scrapes = [requests.get(f"http://{address}/metrics", timeout=20).text for address in self.servers().values()]
        return sum(Scrape(text)(metric, **labels) for text in scrapes)

    def replica_process(self, name: str) -> psutil.Process:
        """The process of a replica; its server is below it."""
        (path,) = self.folder.glob(f"server-*-{name}.json")
        return psutil.Process(int(path.name.split("-")[1]))

    def _answers_or_ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None or "the fleet answers" in self.log_path.read_text(errors="replace")


def _environment() -> dict[str, str]:
    paths = [str(ROOT / one) for one in ("deploy/ray_serve", "plugin", "policies", "dashboard")]
    own = {"HEADWAY_PRESET_DIR": str(PRESETS), "PYTHONPATH": os.pathsep.join(paths)}
    return {**os.environ, **OFFLINE, **own}


def _is_ready(address: str) -> bool:
    try:
        return requests.get(f"http://{address}/headway/readyz", timeout=5).status_code == 200
    except requests.RequestException:
        return False


@dataclass
class Clients:
    """Closed loops of clients. Each request ends whole, cut (an error event after its first token), or lost."""

    url: str
    tokens: int
    ends: Counter[str] = field(default_factory=Counter)
    replicas: Counter[str] = field(default_factory=Counter)
    odd: list[str] = field(default_factory=list)
    begun: int = 0

    async def run(self, number: int, until: Callable[[], bool]) -> None:
        """So many clients, each with one request at a time, until the condition holds; then all of them finish."""
        async with httpx.AsyncClient(timeout=300, limits=httpx.Limits(max_connections=None)) as client:
            await asyncio.gather(*(self._client(client, place, until) for place in range(number)))

    async def _client(self, client: httpx.AsyncClient, place: int, until: Callable[[], bool]) -> None:
        while not until():
            self.begun += 1
            end = await self._ask(client, f"{place} {self.begun}", stream=self.begun % 2 == 0)
            self.ends[end] += 1

    async def _ask(self, client: httpx.AsyncClient, prompt: str, *, stream: bool) -> str:
        asked = {"model": "tiny", "prompt": prompt, "max_tokens": self.tokens, "ignore_eos": True, "stream": stream}
        try:
            answer = await client.post(f"{self.url}/v1/completions", json=asked)
        except httpx.HTTPError as error:
            self.odd.append(repr(error))
            return "lost"
        self.replicas[answer.headers.get("x-headway-replica", "")] += 1
        if answer.status_code != httpx.codes.OK:
            self.odd.append(f"{answer.status_code} {answer.text[:200]}")
            return "lost"
        if stream:
            return self._end_of_stream(answer.text)
        return "whole" if answer.json()["usage"]["completion_tokens"] == self.tokens else "short"

    def _end_of_stream(self, text: str) -> str:
        """Whole with one end and no more events than tokens, so that no part of it came twice."""
        said = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
        events = [json.loads(one) for one in said if one != "[DONE]"]
        if errors := [event for event in events if "error" in event]:
            self.odd += map(str, errors)
            return "cut"
        finishes = [event["choices"][0]["finish_reason"] for event in events if event["choices"]]
        whole = said.count("[DONE]") == 1 and finishes.count("length") == 1 and len(events) <= self.tokens + 1
        return "whole" if whole else "short"


class Load:
    """Clients in a thread, for as long as the block."""

    def __init__(self, url: str, number: int, tokens: int = 60) -> None:
        self.clients, self._number, self._over = Clients(url, tokens), number, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        asyncio.run(self.clients.run(self._number, self._over.is_set))

    def __enter__(self) -> Clients:
        self._thread.start()
        return self.clients

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def accounted(clients: Clients) -> None:
    """Every request that was begun has exactly one end."""
    assert clients.ends.total() == clients.begun, clients.ends
