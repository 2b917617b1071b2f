"""The ``headway serve`` of a replica: a child process that ends with the process that started it."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import aiohttp

_POLL_S = 0.2
_ANSWER_S = 5.0
_END_S = 60.0
_TOKEN, _TOKEN_FILE = "HEADWAY_ADMIN_TOKEN", "HEADWAY_ADMIN_TOKEN_FILE"

#: Asks the kernel for SIGTERM at the end of the thread that started it, then becomes the command.
_ENDING_WITH_PARENT = """
import ctypes, os, signal, sys
pr_set_pdeathsig = 1
ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""


class ServerError(Exception):
    """The server ended, or did not become ready in time."""


class ServerProcess:
    """One server on a free port of ``host``. Start it in a thread that lives as long as it should."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], host: str, log_path: Path | None) -> None:
        self._words = words
        self._environment = {**os.environ, **environment}
        self._log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._host = host
        self.address = ""

    @property
    def alive(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def url(self) -> str:
        """Where this machine reaches it."""
        return f"http://{self.address}"

    async def start(self, within_s: float) -> None:
        """Start it and wait until it is ready, after its warm-up. Raises ServerError, and leaves no process then."""
        reached = "127.0.0.1" if self._host == "0.0.0.0" else self._host  # nosec B104 - only compared
        port = _free_port(self._host)
        self.address = f"{reached}:{port}"
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_S))
        if not (self._environment.get(_TOKEN) or self._environment.get(_TOKEN_FILE)):
            self._environment[_TOKEN] = secrets.token_hex(32)
        command = [sys.executable, "-m", "headway", "serve", *self._words, "--host", self._host, "--port", str(port)]
        self._process = self._launch([sys.executable, "-c", _ENDING_WITH_PARENT, str(os.getpid()), *command])
        try:
            async with asyncio.timeout(within_s):
                while not await self.ready():
                    if not self.alive:
                        raise ServerError(f"headway serve ended with {self._process.returncode} before it was ready")
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            await self.end()
            raise ServerError(f"headway serve was not ready after {within_s:g} s") from None
        except BaseException:
            await self.end()
            raise

    async def ready(self) -> bool:
        """Whether it takes requests; False where it does not answer."""
        return await self._status("GET", "/headway/readyz") == 200

    async def healthy(self) -> bool:
        """Whether the process answers. An engine that is away is the server's own affair: it replaces it."""
        return self.alive and await self._status("GET", "/headway/healthz") == 200

    async def metrics(self) -> str:
        """One scrape. Raises aiohttp.ClientError or TimeoutError."""
        assert self._session is not None
        async with self._session.get(f"{self.url}/metrics", headers=self._admin()) as answer:
            answer.raise_for_status()
            return await answer.text()

    async def drain(self, reason: str) -> bool:
        """Order it to refuse what is new and what waits; what runs goes on. False where it did not accept that."""
        return await self._status("POST", "/headway/v1/drain", {"reason": reason}) == 202

    async def end(self) -> None:
        """SIGTERM, on which it drains by itself, and after a minute SIGKILL."""
        if self._process is not None and self.alive:
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.to_thread(self._process.wait, _END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                await asyncio.to_thread(self._process.wait)
        if self._session is not None:  # last: Serve asks for readings until the end
            await self._session.close()

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        streams = None if self._log_path is None else self._log_path.open("wb")
        try:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=streams, stderr=streams, env=self._environment
            )
        finally:
            if streams is not None:
                streams.close()

    async def _status(self, method: str, path: str, body: object = None) -> int:
        """The status of an answer; 0 where there is none."""
        assert self._session is not None
        try:
            async with self._session.request(method, self.url + path, json=body, headers=self._admin()) as answer:
                return answer.status
        except (aiohttp.ClientError, TimeoutError):
            return 0

    def _admin(self) -> dict[str, str]:
        token = self._environment.get(_TOKEN) or Path(self._environment[_TOKEN_FILE]).read_text().strip()
        return {"Authorization": f"Bearer {token}"}


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
