"""The group: the child process that has the engine and its API servers (``headway.vllm_adapter.front_end_group``)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from headway.errors import HeadwayError, NoEngineError
from headway.vllm_adapter.process.core_start import family, kill
from headway.vllm_adapter.start_checks import FRONT_END

log = logging.getLogger(__name__)

#: The exit code for wrong usage, that of argparse.
USAGE: Final = 2
_COMMAND: Final = (sys.executable, "-m", "headway.vllm_adapter.front_end_group")
_KEY: Final = "HEADWAY_INSTANCE_KEY"
_NAME: Final = "api-server-"
_POLL_S: Final = 0.02
_SETTLED_WITHIN_S: Final = 0.5
_KILLED_WITHIN_S: Final = 5.0
_ENDS_WITHIN_S: Final = 3.0
_MAX_LINE_BYTES: Final = 1 << 20


def instance_name(number: int) -> str:
    """The name of an API server in metrics and in the log."""
    return f"{_NAME}{number}"


class ArgumentsRefusedError(HeadwayError):
    """vLLM has refused its arguments, and said why in the log."""


class Group:
    """One group at a time: it can be started again when it has ended. ``command`` is the program, which gets a
    descriptor, the count and the words.

    ``on_lost`` is called with the number of an API server that has ended, ``on_dead`` once when the engine has, however
    it ended. Use it on one event loop.
    """

    def __init__(self, words: Sequence[str], count: int, command: Sequence[str] = _COMMAND) -> None:
        self.count = count
        self.on_lost: Callable[[int], None] = lambda number: None
        self.on_dead: Callable[[], None] = lambda: None
        self._words = list(words)
        self._key = ""
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._settings: asyncio.Future[Mapping[str, Any]] | None = None
        self._lost: set[str] = set()
        self._dead = True
        self._error = ""

    @property
    def gone(self) -> bool:
        """Whether its engine has ended, or is about to; True before the first start."""
        return self._dead or self._process is None or self._process.poll() is not None

    @property
    def lost(self) -> frozenset[str]:
        """The names of its API servers that have ended."""
        return frozenset(self._lost)

    def key(self) -> str:
        """The key of its API servers, another one for each start; there is one from the return of ``start`` on.

        Raises ConnectionRefusedError while there is none: the ports of one that is gone may be those of another
        program, which must be sent neither a key nor a request.
        """
        if self.gone or not self._key:
            raise ConnectionRefusedError("the engine's process has ended, or does not listen yet")
        return self._key

    @property
    def why(self) -> str:
        """Why it has ended, or did not start."""
        return self._error or "its process has ended; the cause is in the log above"

    async def wait_for_report(self, name: str) -> None:
        """The connection to the API server of that name broke: wait until it is known whether the engine has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLED_WITHIN_S):
                while not (self.gone or name in self._lost):  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(_POLL_S)

    async def start(self) -> Mapping[str, Any]:
        """Start it; returns what it says of its arguments and ports, before its engine is up. Take those ports at once.

        What is left of one before is ended first. Raises NoEngineError with one line, or ArgumentsRefusedError.
        """
        if self._process is not None:  # one that is about to end removes its own temporary files
            await _ended(self._process, _ENDS_WITHIN_S)
        await self.end()
        key, self._key = secrets.token_hex(32), ""
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603 - it takes milliseconds; our own module
                [*self._command, str(writing), str(self.count), *self._words],
                env={**os.environ, FRONT_END: "1", _KEY: key},
                stdin=subprocess.DEVNULL,
                pass_fds=(writing,),
                start_new_session=True,  # Ctrl-C in a terminal is for this process, which drains first
            )
        finally:
            os.close(writing)
        self._dead, self._error, self._lost = False, "", set()
        settings: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._settings = settings
        self._reading = asyncio.create_task(self._read(reading, self._process), name="headway group")
        while not settings.done():
            if self.gone:
                if not self._error:  # its messages end shortly before the process does
                    await _ended(self._process, _ENDS_WITHIN_S)
                if self._process.returncode == USAGE:
                    raise ArgumentsRefusedError("vLLM refused its arguments; the reason is above")
                raise NoEngineError(self.why)
            await asyncio.wait({settings}, timeout=_POLL_S)
        self._key = key
        return settings.result()

    def kill(self) -> None:
        """End all its processes at once."""
        if self._process is not None:
            self._engine_ended()
            if self._process.poll() is None:  # else its number may be another process's; its orphans end by themselves
                kill(family(self._process.pid))

    async def end(self, within_s: float = 0.0) -> None:
        """End it, in order where there is time for that, and wait until it has ended."""
        process = self._process
        if process is None:
            return
        if within_s and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            await _ended(process, within_s)
        self.kill()
        await _ended(process, _KILLED_WITHIN_S)
        self._process = None
        if self._reading is not None:
            self._reading.cancel()

    # ------------------------------------------------------------------ inside

    async def _read(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        """Take its messages, for as long as it runs. Where they end, it has ended."""
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
            if self._process is process:  # and no other group has taken its place
                self._engine_ended()

    def _take(self, message: Mapping[str, Any]) -> None:
        if "settings" in message and self._settings is not None and not self._settings.done():
            self._settings.set_result(message["settings"])
        if "lost" in message:
            number = int(message["lost"])
            self._lost.add(instance_name(number))
            self.on_lost(number)
        if "error" in message or "dead" in message:
            self._error = str(message.get("error") or message.get("dead"))
            self._engine_ended()

    def _engine_ended(self) -> None:
        """Once for each start."""
        if not self._dead:
            self._dead = True
            self.on_dead()


async def _ended(process: subprocess.Popen[bytes], within_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while process.poll() is None:  # noqa: ASYNC110 - of another process
                await asyncio.sleep(_POLL_S)
