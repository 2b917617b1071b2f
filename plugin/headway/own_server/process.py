"""The child process that has vLLM's launcher, the engine and its API servers (``headway.vllm_adapter.own_server``)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import psutil

from headway.errors import HeadwayError, NoEngineError
from headway.settings import Environment
from headway.vllm_adapter.process.core_start import family, kill
from headway.vllm_adapter.process.engine_sockets import VARIABLE, short_folder
from headway.vllm_adapter.process.parent_watch import is_killer, remove_at_the_end

log = logging.getLogger(__name__)

#: The exit code for wrong usage, that of argparse.
USAGE: Final = 2
_COMMAND: Final = (sys.executable, "-m", "headway.vllm_adapter.own_server")
_POLL_S: Final = 0.02
_WATCH_EVERY_S: Final = 0.1
_SETTLED_WITHIN_S: Final = 0.5
_KILLED_WITHIN_S: Final = 5.0
_ENDS_WITHIN_S: Final = 3.0
_MAX_LINE_BYTES: Final = 1 << 20


class ArgumentsRefusedError(HeadwayError):
    """vLLM has refused its arguments, and named the reason in the log."""


class OwnServer:
    """A server in a child process, which can be started again when it has ended.

    ``command`` is the program, which gets a descriptor, the path of its socket and the words. ``on_dead`` is called
    once when the server has ended, however it ended. Use it on one event loop, and ``end`` it there. Making one raises
    HeadwayError where its socket can be nowhere.
    """

    def __init__(self, words: Sequence[str], command: Sequence[str] = _COMMAND) -> None:
        self.on_dead: Callable[[], None] = lambda: None
        self._words = list(words)
        self._command = list(command)
        self._folder = short_folder("headway-server-")
        remove_at_the_end(str(self._folder))
        self._process: subprocess.Popen[bytes] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._said: dict[str, Mapping[str, Any]] = {}
        self._dead = True
        self._error = ""

    @property
    def socket(self) -> str:
        """The path of the Unix socket where the server listens."""
        return str(self._folder / "api.sock")

    @property
    def gone(self) -> bool:
        """Whether the server has ended, or is about to; True before the first start."""
        return self._dead or self._process is None or self._process.poll() is not None

    @property
    def engine(self) -> Mapping[str, Any] | None:
        """The server's report of its engine; None until that is being started."""
        return self._said.get("engine")

    @property
    def why(self) -> str:
        """The reason why the server has ended, or did not start."""
        return self._error or "the server's process has ended; the cause is in the log above"

    async def wait_for_report(self) -> None:
        """Wait a moment for the end of the server, after a connection to it broke."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLED_WITHIN_S):
                while not self.gone:  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(_POLL_S)

    async def start(self) -> Mapping[str, Any]:
        """Start the server; returns its report of its arguments, before its engine is up.

        The remains of an earlier server are ended first. Raises NoEngineError with one line, or ArgumentsRefusedError.
        """
        if self._process is not None:  # a process that is about to end removes its own temporary files
            await _ended(self._process, _ENDS_WITHIN_S)
        await self._end_process()
        with suppress(FileNotFoundError):
            os.unlink(self.socket)
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603 - it takes milliseconds; our own module
                [*self._command, str(writing), self.socket, *self._words],
                env={VARIABLE: str(self._folder), **os.environ, Environment.behind_queue.name: "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=(writing,),
                start_new_session=True,  # Ctrl-C in a terminal is for this process, which drains first
            )
        finally:
            os.close(writing)
        self._dead, self._error = False, ""
        self._said = {}
        self._reading = asyncio.create_task(self._read(reading, self._process), name="headway own server")
        while "settings" not in self._said:
            if self.gone:
                if not self._error:  # its messages end shortly before the process does
                    await _ended(self._process, _ENDS_WITHIN_S)
                if self._process.returncode == USAGE:
                    raise ArgumentsRefusedError("vLLM refused its arguments; the reason is above")
                raise NoEngineError(self.why)
            await asyncio.sleep(_POLL_S)
        return self._said["settings"]

    def watch(self) -> None:
        """End all processes from now on when any process ends. To be called when they are up.

        vLLM's launcher would end the others in order, with answers that are cut short.
        """
        if self._process is not None:
            self._watching = asyncio.create_task(self._watch(self._process), name="headway own server watch")

    def kill(self) -> None:
        """End all processes of the server at once."""
        if self._process is not None:
            self._server_ended()
            if self._process.poll() is None:  # else its number may be another process's; its orphans end by themselves
                kill(family(self._process.pid))

    async def end(self, within_s: float = 0.0) -> None:
        """End the server, in order within the time given, and wait until it has ended; it is not started again."""
        if within_s and self._process is not None and self._process.poll() is None:
            if self._watching is not None:  # its parts end one after another from here on
                self._watching.cancel()
            self._process.send_signal(signal.SIGTERM)
            await _ended(self._process, within_s)
        await self._end_process()
        shutil.rmtree(self._folder, ignore_errors=True)

    # ------------------------------------------------------------------ inside

    async def _end_process(self) -> None:
        self.kill()
        if self._process is not None:
            await _ended(self._process, _KILLED_WITHIN_S)
        self._process = None
        for task in (self._reading, self._watching):
            if task is not None:
                task.cancel()

    async def _read(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        """Take the server's messages for as long as it runs; with their end it has ended."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
        )
        try:
            while line := await reader.readline():
                try:
                    self._take(json.loads(line))
                except Exception:
                    log.exception("a message of the engine's process could not be used")
        finally:
            transport.close()
            if self._process is process:  # and no other process has taken its place
                self._server_ended()

    def _take(self, message: Mapping[str, Any]) -> None:
        self._said |= message
        if "error" in message:
            self._error = str(message["error"])
            self._server_ended()

    async def _watch(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(psutil.Error):
            parts = [child for child in psutil.Process(process.pid).children() if not is_killer(child)]
            while all(_runs(child) for child in parts):  # noqa: ASYNC110 - of other processes
                await asyncio.sleep(_WATCH_EVERY_S)
        if self._process is process and not self._dead:
            log.error("a process of the engine or of an API server has ended: all of them are ended")
            self.kill()

    def _server_ended(self) -> None:
        """Report the end of the server, once for each start."""
        if not self._dead:
            self._dead = True
            self.on_dead()


def _runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


async def _ended(process: subprocess.Popen[bytes], within_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while process.poll() is None:  # noqa: ASYNC110 - of another process
                await asyncio.sleep(_POLL_S)
