"""The ``headway serve`` of a replica: a child process, what is asked of it over HTTP, and its place in the listing.

The listing is a folder with a file for each server, as Prometheus' file discovery reads them. A file of a process that
has ended without removing it is removed by the next replica that starts on this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext, suppress
from http import HTTPStatus
from pathlib import Path

import psutil

from headway.router.addresses import Address
from headway.router.forwarding.call import Call, InstanceLostError
from headway.router.forwarding.exchange import InstanceClient
from headway.router.forwarding.forwarded import Forwarded, Piece
from headway_fleet.forwarding import Lost
from headway_fleet.settings import FleetSettings

_POLL_S = 0.2
_ANSWER_S = 5.0
_END_S = 60.0
_TOKEN, _TOKEN_FILE = "HEADWAY_ADMIN_TOKEN", "HEADWAY_ADMIN_TOKEN_FILE"
_LISTED = re.compile(r"server-(\d+)-.*\.json")


class ServerError(Exception):
    """The server ended, or did not become ready in time."""


class Server:
    """A server on a free port. Start, use and end it on one event loop.

    ``answered`` counts the requests of which good output has come, ``failed`` those that the server has failed or lost
    before any output; only such as may need its engine, which are those with a body.
    """

    def __init__(self, settings: FleetSettings, name: str) -> None:
        self.answered = self.failed = 0
        self._settings, self._name = settings, name
        self._listed = None if settings.folder is None else Path(settings.folder, f"server-{os.getpid()}-{name}.json")
        self._environment = {**os.environ, **settings.environment}
        if not (self._environment.get(_TOKEN) or self._environment.get(_TOKEN_FILE)):
            self._environment[_TOKEN] = secrets.token_hex(32)
        port = _free_port(settings.host)
        reached = "127.0.0.1" if settings.host == "0.0.0.0" else settings.host  # nosec B104 - only compared
        self.address = Address(f"{reached}:{port}", f"http://{reached}:{port}")
        listens = ["--host", settings.host, "--port", str(port)]
        self._command = [sys.executable, "-m", "headway", "serve", *settings.serve, *listens]
        self._process: subprocess.Popen[bytes] | None = None
        self._client = InstanceClient()

    @property
    def alive(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Start the server and wait until it is ready and warm. Raises ServerError, without a process left."""
        within_s = self._settings.start_s
        self._process = self._launch()
        try:
            async with asyncio.timeout(within_s):
                while not await self._says("/headway/readyz"):
                    if not self.alive:
                        raise ServerError(f"headway serve ended with {self._process.returncode} before it was ready")
                    await asyncio.sleep(_POLL_S)
        except BaseException as error:
            await self.end()
            if isinstance(error, TimeoutError):
                raise ServerError(f"headway serve was not ready after {within_s:g} s") from None
            raise
        self.put_in_listing()

    def put_in_listing(self) -> None:
        """List a server that listens; a reader never sees half a file."""
        if self._listed is None:
            return
        for path in self._listed.parent.glob("server-*.json"):
            found = _LISTED.fullmatch(path.name)
            if found and not psutil.pid_exists(int(found[1])):
                path.unlink(missing_ok=True)
        unfinished = self._listed.with_suffix(".tmp")
        unfinished.write_text(json.dumps([{"targets": [self.address.name], "labels": {"replica": self._name}}]))
        unfinished.replace(self._listed)

    async def healthy(self) -> bool:
        """Whether the process answers. An engine that is away is the server's own affair: it replaces it."""
        return self.alive and await self._says("/headway/healthz")

    async def metrics(self) -> str:
        """A scrape. Raises InstanceLostError, OSError or ValueError."""
        status, text = await self._asked("GET", "/metrics")
        if status != HTTPStatus.OK:
            raise ValueError(f"/metrics answers {status}")
        return text.decode("utf-8", "replace")

    async def exchange(self, request: Forwarded) -> AsyncGenerator[Piece | Lost, None]:
        """The response to a client's request; Lost in place of a missing rest."""
        counted, begun = bool(request.body), False
        try:
            async with aclosing(self._client.exchange(self.address, request, Call(), 0)) as pieces:
                async for piece in pieces:
                    if piece.status is not None:
                        begun = True
                        self.failed += counted and piece.status == HTTPStatus.INTERNAL_SERVER_ERROR
                        self.answered += counted and bool(piece.body) and piece.status < HTTPStatus.BAD_REQUEST
                    yield piece
        except InstanceLostError as error:
            self.failed += counted and not begun
            yield Lost(f"{type(error.__cause__).__name__}: {error.__cause__}", error.sent)

    async def end(self) -> None:
        """Order the server to refuse new and waiting requests, then SIGTERM; after a minute SIGKILL."""
        if self._process is not None and self.alive:
            with suppress(InstanceLostError, OSError):
                await self._asked("POST", "/headway/v1/drain", b'{"reason":"the replica is removed"}')
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.to_thread(self._process.wait, _END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                await asyncio.to_thread(self._process.wait)
        await self._client.close()
        if self._listed is not None:
            self._listed.unlink(missing_ok=True)

    def _launch(self) -> subprocess.Popen[bytes]:
        if self._listed is not None:
            self._listed.parent.mkdir(parents=True, exist_ok=True)
        with nullcontext() if self._listed is None else self._listed.with_name(f"{self._name}.log").open("wb") as log:
            return subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )

    async def _says(self, path: str) -> bool:
        """Whether the server answers this route with 200."""
        try:
            return (await self._asked("GET", path))[0] == HTTPStatus.OK
        except (InstanceLostError, OSError):
            return False

    async def _asked(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body of an answer to this process, in time. Raises InstanceLostError or OSError."""
        headers = (("authorization", f"Bearer {self._token()}"), ("content-type", "application/json"))
        pieces = self._client.exchange(self.address, Forwarded(method, path, headers, body), Call(), 0)
        async with asyncio.timeout(_ANSWER_S), aclosing(pieces):
            found = [piece async for piece in pieces]
        return found[0].status or 0, b"".join(piece.body for piece in found)

    def _token(self) -> str:
        return self._environment.get(_TOKEN) or Path(self._environment[_TOKEN_FILE]).read_text().strip()


def addresses(folder: Path) -> dict[str, str]:
    """Where the servers of a listing listen, by the name of their replica."""
    found = {}
    for path in sorted(folder.glob("server-*.json")):
        (one,) = json.loads(path.read_text())
        found[str(one["labels"]["replica"])] = str(one["targets"][0])
    return found


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
