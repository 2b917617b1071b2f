"""The guard of grammars: a request goes on to the engine only once its grammar was compiled outside of it, in bounds.

vLLM compiles in a small pool of threads inside the engine and cancels nothing: a pattern of a few bytes like
``(([a-z]{1,30}){1,30}){1,30}`` occupies the whole pool for hours, after its client has left, and every other structured
request waits behind it. So a process compiles first (``compile_server``). A grammar that takes more than its bounds, or
would take the engine too long at each token (``walk``), is refused with 400. A grammar within those bounds costs the
engine no more.

Plain schemas (``plain``) need no check. A verdict on a grammar is kept by its hash, so a grammar that is used again
costs nothing. The process starts with the first grammar that is not plain, which takes some seconds. A tenant has one
compilation at a time, and all tenants together use a part of the processors: none keeps the others waiting. A
compilation for which no request waits any more is ended. Where the process cannot be started this is logged once, and
requests pass unchecked.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import sys
from collections import Counter, OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headway.errors import refusal
from headway.vllm_adapter.grammars.frames import MOST_MEAN_S, Failure, Frames, Limits, Order, Start, Verdict, packed
from headway.vllm_adapter.grammars.plain import is_plain
from headway_policies import Reason

log = logging.getLogger(__name__)

_MODULE = "headway.vllm_adapter.grammars.compile_server"
_READ_BYTES = 1 << 16
_START_WITHIN_S = 120.0
_MOST_VERDICTS = 4096
_LINE_TIMES = 3  # the longest wait in line, in longest compilations: a tenant may ask for more than can be compiled
MOST_IN_LINE = 256
_RETRY_AFTER_S = 5
_TRIES = 2  # where the process ends, which may be another grammar's doing
#: The fields of vLLM's ``StructuredOutputsParams`` that decide what is compiled.
FIELDS = (
    "json", "regex", "choice", "grammar", "json_object", "structural_tag", "disable_any_whitespace",
    "disable_additional_properties", "whitespace_pattern",
)  # fmt: skip


class _KilledError(Exception):
    """The process was killed while it started."""


class GrammarTooLargeError(Exception):
    """The grammar takes more than a request may, to compile or at each token."""


@dataclass(slots=True)
class _Compilation:
    """A grammar that is being compiled, and the number of requests that wait for it."""

    task: asyncio.Task[Verdict | None]
    waiting: int = 0


@dataclass(slots=True)
class _Line:
    """The turns of one tenant: one compilation at a time, kept while any waits."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class GrammarGuard:
    """The guard of one server's grammars. Of a tenant ``most_in_line`` requests may wait for theirs.

    ``verdicts`` counts the results: of compilations, and of grammars that are "plain", "known", or "unchecked".
    """

    def __init__(
        self,
        vllm_config: Any,
        limits: Limits | None = None,
        *,
        at_once: int | None = None,
        most_in_line: int = MOST_IN_LINE,
        module: str = _MODULE,
    ) -> None:
        self.verdicts: Counter[str] = Counter(
            {"plain": 0, "known": 0, "unchecked": 0, **{verdict.name.lower(): 0 for verdict in Verdict}}
        )
        self._config = vllm_config
        self._limits = limits or Limits()
        self._module = module
        self._most_in_line = most_in_line
        self._known: OrderedDict[bytes, Verdict] = OrderedDict()
        self._compiling: dict[tuple[str, bytes], _Compilation] = {}
        self._lines: dict[str, _Line] = {}
        self._at_once = asyncio.Semaphore(at_once or max(1, len(os.sched_getaffinity(0)) // 2))
        self._reports: dict[int, asyncio.Future[Verdict | None]] = {}
        self._numbers = 0
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._unusable = False
        self._failure = ""

    @property
    def compiling(self) -> int:
        """The number of grammars that are being compiled, or wait for their turn."""
        return len(self._compiling)

    async def check(self, params: Any, tenant: str) -> None:
        """Compile the grammar of a request, unless its verdict is known.

        Raises GrammarTooLargeError, or Refused where its tenant has too many in line, or the request waits too long
        there, or the processors have too little time for it.
        """
        fields = grammar_of(params)
        if not fields or is_plain(fields):
            self.verdicts["plain"] += bool(fields)
            return
        key = hashlib.sha256(json.dumps(fields, sort_keys=True, default=str).encode()).digest()
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            self.verdicts["known"] += 1
        verdict = known or await self._verdict(key, fields, tenant)
        if verdict is Verdict.TOO_SLOW:
            raise GrammarTooLargeError(
                f"this grammar takes more than {1e3 * MOST_MEAN_S:g} ms at each token, or ever more: it is ambiguous, "
                "or names too many alternatives"
            )
        if verdict is Verdict.TOO_LARGE:
            limits = self._limits
            raise GrammarTooLargeError(
                f"this grammar takes more than {limits.processor_s} s of processor time or "
                f"{limits.memory_bytes >> 20} MiB to compile: repeat less, nest less, or name fewer alternatives"
            )

    async def run(self) -> None:
        """Wait until cancelled, then end the process."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.stop()

    async def start(self) -> None:
        """Start the process, unless it runs."""
        async with self._starting:
            if self._unusable or (self._process is not None and self._process.returncode is None):
                return
            try:
                await self._start()
            except _KilledError:  # with the engine, whose processes end together: the next grammar starts another one
                return
            except Exception as error:
                self._unusable = True
                log.error("grammars are not checked before the engine has them: %s", error or type(error).__name__)
                await self.stop()

    async def stop(self) -> None:
        """End the process, and every compilation in it."""
        if self._reader is not None:
            self._reader.cancel()
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    # ------------------------------------------------------------------ inside

    async def _verdict(self, key: bytes, fields: Mapping[str, Any], tenant: str) -> Verdict:
        """The verdict of a compilation that requests of a tenant may wait for; it ends with the last of them."""
        found, line = self._compiling.get((tenant, key)), self._lines.get(tenant)
        if found is None:
            if line is not None and line.users >= self._most_in_line:
                raise refusal(Reason.QUEUE_FULL, _RETRY_AFTER_S)
            found = _Compilation(asyncio.get_running_loop().create_task(self._in_turn(key, fields, tenant)))
            self._compiling[tenant, key] = found
        found.waiting += 1
        try:
            async with asyncio.timeout(_LINE_TIMES * self._limits.wall_s):
                verdict = await asyncio.shield(found.task)
        except TimeoutError:
            raise refusal(Reason.QUEUE_TIMEOUT, _RETRY_AFTER_S) from None
        finally:
            found.waiting -= 1
            if not found.waiting:
                found.task.cancel()
                self._compiling.pop((tenant, key), None)
        if verdict is None:  # the process was killed again and again, with the engine or by this grammar
            return Verdict.TOO_LARGE
        if verdict is Verdict.OVERDUE:
            raise refusal(Reason.QUEUE_TIMEOUT, _RETRY_AFTER_S)
        if self._unusable:
            return verdict
        self._known[key] = verdict
        if len(self._known) > _MOST_VERDICTS:
            self._known.popitem(last=False)
        return verdict

    async def _in_turn(self, key: bytes, fields: Mapping[str, Any], tenant: str) -> Verdict | None:
        """The verdict of the process, unless another tenant has it by now; None where it has ended at each try."""
        line = self._lines.setdefault(tenant, _Line())
        line.users += 1
        try:
            async with line.turn, self._at_once:
                if (known := self._known.get(key)) is not None:
                    return known
                for _ in range(_TRIES):
                    await self.start()
                    verdict = await self._compile(dict(fields))
                    if verdict is not None:
                        return verdict
        finally:
            line.users -= 1
            if not line.users:
                del self._lines[tenant]
        return None

    async def _compile(self, fields: dict[str, Any]) -> Verdict | None:
        """The verdict of the process; None where the process has ended meanwhile."""
        if self._unusable:
            self.verdicts["unchecked"] += 1
            return Verdict.FITS
        process = self._process
        if process is None or process.stdin is None:
            return None
        self._numbers += 1
        number = self._numbers
        report: asyncio.Future[Verdict | None] = asyncio.get_running_loop().create_future()
        self._reports[number] = report
        process.stdin.write(packed(Order(number, fields)))
        try:
            verdict = await report
        except asyncio.CancelledError:
            if not process.stdin.is_closing():
                process.stdin.write(packed(Order(number, None)))
            raise
        finally:
            del self._reports[number]
        if verdict is not None:
            self.verdicts[verdict.name.lower()] += 1
        return verdict

    async def _start(self) -> None:
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self._module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "VLLM_LOGGING_LEVEL": "ERROR"},
        )
        assert process.stdin is not None
        process.stdin.write(packed(Start(self._config, self._limits)))
        ready = self._reports[0] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.get_running_loop().create_task(self._read(process), name="headway grammars")
        try:
            async with asyncio.timeout(_START_WITHIN_S):
                if await ready is None:
                    code = await process.wait()
                    if code < 0:
                        raise _KilledError
                    ended = f"the process that compiles grammars ended with {code}"
                    raise RuntimeError(f"{ended}: {self._failure}" if self._failure else ended)
        finally:
            del self._reports[0]

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Hand out the verdicts until the process has ended; the next grammar starts another process."""
        assert process.stdout is not None
        frames = Frames()
        while data := await process.stdout.read(_READ_BYTES):
            for report in frames.feed(data):
                if isinstance(report, Failure):
                    self._failure = report.why
                else:
                    self._settle(report.number, report.verdict)
        await process.wait()
        if self._process is process:
            self._process = None
        for number in list(self._reports):
            self._settle(number, None)

    def _settle(self, number: int, verdict: Verdict | None) -> None:
        waiting = self._reports.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(verdict)


def grammar_of(params: Any) -> dict[str, Any]:
    """The fields that a call's sampling parameters let the engine compile; empty for none."""
    asked = getattr(params, "structured_outputs", None)
    if asked is None:
        return {}
    return {name: value for name in FIELDS if (value := getattr(asked, name, None)) is not None and value is not False}
