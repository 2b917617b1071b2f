"""A real server in a child process."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import psutil
import requests
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

ROOT = Path(__file__).resolve().parents[2]
TINY_MODEL = ROOT / ".models" / "tiny"
PRESETS = Path(__file__).resolve().parent / "presets"


def core_for_engine() -> str:
    """Which core vLLM's worker is bound to: its own choice, or one core for each of several test workers.

    By default it takes the first core, so the engines of two test workers would share that one.
    """
    test_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not test_worker:
        return "auto"
    cores = sorted(os.sched_getaffinity(0))
    return str(cores[int(test_worker.removeprefix("gw")) % len(cores)])


#: The folder of a vLLM plugin that servers of tests have, and its name.
PATIENCE, PATIENT = Path(__file__).resolve().parent / "patient_engine", "headway_test_patience"
OFFLINE = {
    "PYTHONPATH": os.pathsep.join([str(PATIENCE), *filter(None, [os.environ.get("PYTHONPATH")])]),
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HEADWAY_TRUSTED_PROXIES": "127.0.0.1",  # the tests choose classes and tenants, as a proxy would
    "HEADWAY_CACHE_DIR": "",  # else a limit starts where an earlier test left it
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": core_for_engine(),
    "TORCHDYNAMO_DISABLE": "1",  # else the first logprobs request compiles, for seconds, also under --enforce-eager
}
ENGINE_FLAGS = ("--enforce-eager", "--max-model-len", "2048", "--host", "127.0.0.1", "--disable-uvicorn-access-log")
if worker := os.environ.get("HEADWAY_TEST_WORKER"):
    ENGINE_FLAGS += ("--worker-cls", worker)
#: Fewer than vLLM's own number: the ceiling is the same on every machine.
SEATS = ("--max-num-seqs", "64")
#: EngineCore computes by itself, as it does on one GPU: vLLM is imported once less, and nothing waits between two
#: processes. vLLM itself gives an engine on a processor a worker, which the servers with faults have.
ONE_PROCESS = ("--distributed-executor-backend", "vllm.v1.executor.uniproc_executor.UniProcExecutor")
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # what vLLM sets for its worker
START_S = 480.0


def free_port() -> int:
    """A free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


_END_WITH_PARENT = """
import ctypes, os, signal, sys
pr_set_pdeathsig = 1
ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""


def ending_with_us(command: Sequence[str]) -> list[str]:
    """The command, which also gets SIGTERM when this process ends, even if that one is killed.

    Ctrl-C kills the workers of pytest-xdist, which have no time to stop what they started.
    """
    return [sys.executable, "-c", _END_WITH_PARENT, str(os.getpid()), *command]


def wait_until(holds: Callable[[], Any], what: str, at_most_s: float = 120.0) -> Any:
    """Poll until ``holds()`` is true and return its value; fail with ``what`` otherwise."""
    until_s = time.monotonic() + at_most_s
    while time.monotonic() < until_s:
        if value := holds():
            return value
        time.sleep(0.1)
    raise AssertionError(f"after {at_most_s} s still not so: {what}")


@dataclass
class RunningServer:
    """One `headway serve` or `vllm serve` on a free loopback port; a context manager, at whose end it is killed.

    An orderly end, which ``stop`` asks for, takes vLLM ten seconds.
    """

    command: Sequence[str]
    log_path: Path
    environment: dict[str, str] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_hex(32))
    port: int = field(default_factory=free_port)
    access_log: bool = False
    ready_path: ClassVar[str] = "/headway/readyz"
    chooses: bool = False  # it starts as `headway serve` does by itself: compiled, with the memory that is free here
    process: subprocess.Popen[bytes] | None = None
    children: list[psutil.Process] = field(default_factory=list)
    start_s: float = START_S

    @classmethod
    def headway(cls, log_path: Path, *flags: str, model: Path = TINY_MODEL, **environment: str) -> RunningServer:
        """`headway serve` on the tiny model."""
        command = [sys.executable, "-m", "headway", "serve", str(model), "--served-model-name", "tiny", *SEATS, *flags]
        return cls(command, log_path, {"HEADWAY_PRESET_DIR": str(PRESETS), **environment})

    @classmethod
    def plain_vllm(cls, log_path: Path, *flags: str, **environment: str) -> RunningServer:
        """Stock `vllm serve` with the plugin named (and that of the tests), and no other part of Headway."""
        vllm = str(Path(sys.executable).with_name("vllm"))
        command = [vllm, "serve", str(TINY_MODEL), "--served-model-name", "tiny", *flags]
        named = {"VLLM_PLUGINS": f"headway,{PATIENT}", "HEADWAY_PRESET_DIR": str(PRESETS)}
        return cls(command, log_path, {**named, **environment})

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def viewer_token(self) -> str:
        """The token that may only read; empty where it was started without one."""
        return self.environment.get("HEADWAY_VIEWER_TOKEN", "")

    def launch(self) -> RunningServer:
        """Start it, in a session of its own, and wait for nothing."""
        left_out = {"--disable-uvicorn-access-log"} if self.access_log else set()
        offline, inherited = dict(OFFLINE), dict(os.environ)
        if self.chooses:
            left_out.add("--enforce-eager")
            for name in ("VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "TORCHDYNAMO_DISABLE"):
                del offline[name]
                inherited.pop(name, None)
        flags = [flag for flag in ENGINE_FLAGS if flag not in left_out]
        command = ending_with_us([*self.command, *flags, "--port", str(self.port)])
        environment = {**inherited, **offline, "HEADWAY_ADMIN_TOKEN": self.token, **self.environment}
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
            )
        return self

    def start(self) -> RunningServer:
        """Start it and wait until it is ready."""
        self.launch()
        assert self.process is not None
        wait_until(self._ready_or_dead, "the server is ready", self.start_s)
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log()[-4000:]}")
        self.children = psutil.Process(self.process.pid).children(recursive=True)
        return self

    def stop(self, within_s: float = 60.0) -> int:
        """SIGTERM, then wait; returns the exit code. A process that remains is killed and reported by ``left``."""
        assert self.process is not None
        with suppress(psutil.NoSuchProcess):
            self.children = psutil.Process(self.process.pid).children(recursive=True) or self.children
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(10)

    def left(self, within_s: float = 60.0) -> list[psutil.Process]:
        """Its descendants that outlive it for so long."""
        return psutil.wait_procs(self.children, timeout=within_s)[1]

    def __enter__(self) -> RunningServer:
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        assert self.process is not None
        with suppress(psutil.NoSuchProcess):
            self.children = psutil.Process(self.process.pid).children(recursive=True) or self.children
        self.process.kill()
        self.process.wait(10)
        for orphan in self.left(within_s=5):
            orphan.kill()

    def log(self) -> str:
        """Everything it printed so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def admin(self, method: str, path: str, **options: Any) -> requests.Response:
        """Call the admin API with the operator's token."""
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        return requests.request(method, f"{self.url}/headway/v1/{path}", headers=headers, timeout=20, **options)

    def status(self) -> dict[str, Any]:
        """The admin API's status."""
        answer = self.admin("GET", "status")
        answer.raise_for_status()
        return dict(answer.json())

    def use(self, preset: str) -> dict[str, Any]:
        """Switch to a preset, whatever is in force."""
        answer = self.admin("PUT", "preset", headers={"If-Match": "*"}, json={"name": preset, "reason": "test"})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def not_ready(self) -> list[str]:
        """Why it takes no traffic, by the answer of its readiness route; empty when it does."""
        answer = requests.get(f"{self.url}/headway/readyz", timeout=5)
        reasons = list(answer.json().get("reasons", []))
        assert (answer.status_code == 200) is (not reasons), answer.text
        return reasons

    def scrape(self) -> Scrape:
        """One scrape of /metrics."""
        return Scrape(requests.get(f"{self.url}/metrics", timeout=20).text)

    def settle(self) -> None:
        """Wait until nothing is queued or in flight, here and in the engine."""
        wait_until(lambda: self.scrape().at_rest(), "queue and engine are empty", 60)

    def _ready_or_dead(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            return True
        try:
            return requests.get(f"{self.url}{self.ready_path}", timeout=2).status_code == 200
        except requests.RequestException:
            return False


def assert_queries_stay_out_of_the_log(server: RunningServer, headers: dict[str, str]) -> None:
    """Send a token in the query, to Headway's and to vLLM's routes; the access log, in JSON lines, has the paths and
    not the token."""
    secret, targets = "token-that-nobody-may-read", ("/v1/models", "/headway/readyz", "/headway/v1/status", "/nowhere")
    texts = [requests.get(f"{server.url}{target}?token={secret}", timeout=20).text for target in targets]
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
    answer = requests.post(f"{server.url}/v1/chat/completions?token={secret}", json=chat, headers=headers, timeout=60)
    assert answer.status_code == requests.codes.ok, answer.text
    texts += [server.admin("PUT", f"preset?token={secret}", json={"name": 1}).text, server.admin("GET", "audit").text]
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    requests.get(f"{server.url}/nowhere?token={secret}", headers=upgrade | key, timeout=20)
    lines = [f'"GET {target} HTTP/1.1"' for target in targets]
    lines += [
        '"POST /v1/chat/completions HTTP/1.1" 200',
        '"PUT /headway/v1/preset HTTP/1.1" 422',
        '"WebSocket /nowhere"',
    ]
    for line in lines:
        text = json.dumps(line)[1:-1]
        wait_until(lambda text=text: text in server.log(), f"the log has {line}")  # type: ignore[misc]  # a bound name
    for text in (*texts, server.log()):
        assert secret not in text


class Scrape:
    """The samples of one scrape, summed over whatever labels are not asked for."""

    def __init__(self, text: str) -> None:
        self._lines = [line for line in text.split("\n") if not line.startswith("#")]

    @cached_property
    def samples(self) -> list[Sample]:
        """All of them."""
        return _parsed(self._lines)

    def named(self, name: str) -> list[Sample]:
        """The samples of one name. To parse all of them takes a hundred times as long."""
        return _parsed(line for line in self._lines if line.startswith((f"{name}{{", f"{name} ")))

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of all samples of that name that carry these labels."""
        return sum(one.value for one in self.named(name) if labels.items() <= one.labels.items())

    def unbalanced(self) -> list[str]:
        """The classes for which arrivals differ from queued + in flight + outcomes, and effects that failed."""
        classes = {one.labels["class"] for one in self.named("headway_arrivals_total")}
        assert classes, "the scrape has no ticket counts"
        parts = ("headway_queue_depth", "headway_in_flight", "headway_outcomes_total")
        failed = self("headway_effect_errors_total")
        effects = [f"{failed:g} effects of admission failed"] if failed else []
        return effects + [
            f"{name}: {self('headway_arrivals_total', **{'class': name})} arrived, "
            f"{[self(part, **{'class': name}) for part in parts]}"
            for name in sorted(classes)
            if self("headway_arrivals_total", **{"class": name}) != sum(self(part, **{"class": name}) for part in parts)
        ]

    def at_rest(self) -> bool:
        """Whether nothing waits or runs, in the gate and in the engine."""
        names = ("headway_queue_depth", "headway_in_flight", "headway_seats_taken")
        engine = ("vllm:num_requests_running", "vllm:num_requests_waiting")
        return not any(self(name) for name in (*names, *engine))


def _parsed(lines: Iterable[str]) -> list[Sample]:
    """The samples of some lines of a scrape."""
    return [sample for family in text_string_to_metric_families("\n".join(lines)) for sample in family.samples]
