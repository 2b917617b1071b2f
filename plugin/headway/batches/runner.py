"""The runner of batches: the lines of open batches as requests of this process, a bounded number at a time.

    validating     each line is checked, and none has run (``validation``)
    in_progress    lines run in the least urgent class, a late batch's in the default class (``pace``)
    finalizing     the answers are on the disk, and become files that clients can get

The output itself says which lines are over: a line that is in it is never run again, one that had run and is not in it
is. One batch of a tenant has its turn at a time, the one that is to end first: where such a one comes, the lines of the
other that have begun end, and it runs later. ``_MAX_RUNNING`` tenants have a turn at a time, in the same way. Together
their lines are a quarter more than the engine has seats: a seat that comes free finds a line in the queue.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, ParamSpec, TypeVar

from prometheus_client import REGISTRY
from starlette.types import ASGIApp

from headway.background_tasks import BackgroundTasks
from headway.batches.call import Calls
from headway.batches.folder import LineFile, lines_of
from headway.batches.metrics import BatchCollector
from headway.batches.objects import Batch, Status, StoredFile
from headway.batches.pace import Pace, window_s
from headway.batches.service import Batches, StorageFullError, StorageLockedError
from headway.batches.validation import problems
from headway.openai.batch_file import BatchLine, answer_line, error_line, read_line
from headway.operator import Control
from headway_policies import Preset

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_MAX_RUNNING: Final = 32
#: The lines in memory have so many bytes at most, beside one of each batch.
_MAX_HELD_BYTES: Final = 64 * 1024 * 1024
_TURN_S: Final = 1.0
_FULL_AGAIN_S: Final = 5.0
_UNWRITTEN: Final = (StorageFullError, StorageLockedError, OSError, sqlite3.OperationalError)
_TIDY_EVERY_S: Final = 3600.0
_NOTE_EVERY_S: Final = 60.0
#: Lines that are read or checked at once, on a thread, and the pause between: others have the processor meanwhile.
_SLICE: Final = 200
_PAUSE_S: Final = 0.005
_EXPIRED: Final = ("batch_expired", "The completion window was over before this line had run.")


class BatchRunner:
    """Runs all batches. ``call`` is the whole server, ``seats`` the number of seats, ``preset`` the preset in force.

    ``held_bytes`` are those of the lines in memory.
    """

    def __init__(self, batches: Batches, call: ASGIApp, seats: Callable[[], int], preset: Callable[[], Preset]) -> None:
        self.batches, self.call, self._seats, self._preset = batches, call, seats, preset
        self._running: dict[str, asyncio.Task[None]] = {}
        self._first_s: dict[str, int] = {}
        self.held_bytes = 0
        self._warned = False

    async def run(self) -> None:
        """Run present and coming batches, until cancelled."""
        tidied_s, noted_s = float("-inf"), time.monotonic()
        try:
            while True:
                self.batches.wake.clear()
                self._start()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_NOTE_EVERY_S):
                        await self.batches.wake.wait()
                if time.monotonic() > noted_s + _NOTE_EVERY_S:
                    noted_s = time.monotonic()
                    with suppress(*_UNWRITTEN):
                        await self.batches.note()
                if time.monotonic() > tidied_s + _TIDY_EVERY_S:
                    tidied_s = time.monotonic()
                    with suppress(*_UNWRITTEN):  # the next time, then
                        await self.batches.tidy()
        finally:
            await _end(set(self._running.values()))

    def class_name(self, *, late: bool) -> str:
        """The class in which lines run."""
        preset = self._preset()
        return preset.default_class if late else preset.by_urgency()[-1]

    def has_turn(self, batch: Batch) -> bool:
        """Whether it is the turn of its tenant, and no other batch of that is to end before this one."""
        return batch.expires_s <= self._first_s.get(batch.sender.tenant, float("-inf"))

    def share(self) -> int:
        """The lines of each batch that has its turn that may be in progress."""
        return max(1, (self._seats() * 5 // 4 + 1) // max(1, len(self._first_s)))

    def may_read(self, batch: Batch, running: int) -> bool:
        """Whether a batch with so many lines in progress may read another."""
        has_room = self.held_bytes < _MAX_HELD_BYTES or not running
        return has_room and running < self.share() and self.has_turn(batch)

    async def persist(self, write: Callable[[], Awaitable[T]]) -> T:
        """Write something, however long the disk is full or the database locked."""
        while True:
            try:
                done = await write()
            except _UNWRITTEN as error:
                if not self._warned:
                    self._warned = True
                    log.error("batches wait: %s cannot be written: %s", self.batches.folder.path, error)
                await asyncio.sleep(_FULL_AGAIN_S)
            else:
                if self._warned:
                    self._warned = False
                    log.warning("batches go on: %s is written again", self.batches.folder.path)
                return done

    def _start(self) -> None:
        first_s = self._first_s = {}
        for batch in sorted(self.batches.open.values(), key=self._urgency):
            tenant, cancelled = batch.sender.tenant, batch.status is Status.CANCELLING
            if not cancelled:
                if tenant in first_s or len(first_s) >= _MAX_RUNNING:
                    continue
                first_s[tenant] = batch.expires_s
            if batch.id not in self._running and len(self._running) < _MAX_RUNNING:
                task = asyncio.create_task(OneBatch(self, batch).run(), name=f"headway {batch.id}")
                self._running[batch.id] = task
                task.add_done_callback(partial(self._ended, batch))

    def _urgency(self, batch: Batch) -> tuple[bool, int, bool]:
        return batch.status is not Status.CANCELLING, batch.expires_s, batch.id not in self._running

    def _ended(self, batch: Batch, task: asyncio.Task[None]) -> None:
        del self._running[batch.id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(
                "batch %s stopped: %s; the next start of the server continues the batch",
                batch.id,
                error,
                exc_info=error,
            )
            self.batches.open.pop(batch.id, None)
        self.batches.wake.set()


def start_batches(batches: Batches, server: ASGIApp, control: Control, tasks: BackgroundTasks) -> None:
    """Run batches beside all other requests of a server, until its background tasks are stopped or it exits."""
    desk = control.gateway.gate.desk
    REGISTRY.register(BatchCollector(batches))
    tasks.start("batches", BatchRunner(batches, server, lambda: desk.limit, lambda: control.preset).run())
    atexit.register(batches.close)


class OneBatch:
    """The run of one batch, from where it is."""

    def __init__(self, runner: BatchRunner, batch: Batch) -> None:
        self._runner, self._batches, self._batch = runner, runner.batches, batch
        self._input = self._batches.folder.file(batch.input_id)
        self._output: LineFile
        self._errors: LineFile
        self._over = bytearray()
        self._done = 0
        self._pace = Pace(window_s(batch.window) or 1, self._batches.now_s())
        self._calls = Calls(runner.call, batch.id, batch.sender, lambda: runner.class_name(late=self._pace.late))

    async def run(self) -> None:
        """Take the batch to its end."""
        batch, disk, file = self._batch, self._disk, self._batches.folder.file
        if batch.status is Status.VALIDATING:
            await self._validate()
        if batch.ended:
            return
        self._output = await disk(LineFile, file(batch.output_id))
        self._errors = await disk(LineFile, file(batch.errors_id))
        try:
            await self._recall()
            if await self._run_lines():
                await self._finish()
        finally:  # behind what the disk's thread still writes
            await asyncio.gather(*(self._batches.disk(lines.close) for lines in (self._output, self._errors)))

    async def _validate(self) -> None:
        batch = self._batch
        batch.total, batch.problems = 0, []  # a server may have stopped in the middle
        async for part in _slices(problems(lines_of(self._input), batch.endpoint)):
            batch.problems += filter(None, part)
            batch.total += sum(found is None or found.line is not None for found in part)
            if batch.status is not Status.VALIDATING:
                break
        if batch.status is Status.VALIDATING:  # it may have been cancelled behind the last part, too
            batch.become(Status.FAILED if batch.problems else Status.IN_PROGRESS, self._batches.now_s())
        await self._save()

    async def _recall(self) -> None:
        """Find the finished lines in the written output."""
        batch = self._batch
        await self._batches.disk(bool)  # what is being written is written then
        counts: list[int] = []
        for file in (self._output, self._errors):
            counts.append(0)
            async for part in _slices(file.numbers()):
                counts[-1] += len(part)
                for number in part:
                    self._over.extend(bytes(max(0, number + 1 - len(self._over))))
                    self._over[number] = 1
        batch.completed, batch.failed = counts

    async def _run_lines(self) -> bool:
        """Run the lines that are not over, until all are, or the batch is cancelled or expires: then it is at its end.

        False where another batch has its turn now.
        """
        batch, running = self._batch, set[asyncio.Task[None]]()
        self._pace.at_s = self._batches.now_s()  # the check of the file is no time in which nothing was done
        lines, more = self._lines(), True
        saved_s = time.monotonic()
        try:
            while batch.status is Status.IN_PROGRESS and (running or (more and self._runner.has_turn(batch))):
                if batch.left and self._batches.now_s() >= batch.expires_s:
                    batch.ending = Status.EXPIRED
                    break
                while more and self._runner.may_read(batch, len(running)):
                    found = await self._batches.disk(lambda: next(lines, None))
                    more = found is not None
                    if found is not None:
                        running.add(asyncio.create_task(self._line(*found)))
                if running:
                    over, running = await asyncio.wait(running, timeout=_TURN_S, return_when=asyncio.FIRST_COMPLETED)
                    for task in over:
                        task.result()
                self._judge(self._batches.now_s())
                if time.monotonic() > saved_s + _TURN_S:
                    saved_s = time.monotonic()
                    with suppress(*_UNWRITTEN):
                        await self._batches.save(batch)
        finally:
            await _end(running)
        return not more or batch.status is not Status.IN_PROGRESS or batch.ending is Status.EXPIRED

    def _judge(self, now_s: float) -> None:
        """Measure the pace; where the batch has become late, or no more is, its lines come again in the new class."""
        batch, was = self._batch, self._pace.late
        self._pace.done(self._done, now_s)
        self._done = 0
        batch.late = self._pace.judge(batch.left, batch.expires_s - now_s)
        batch.needed_s = self._pace.needed_s(batch.left)
        if batch.late is not was:
            log.info("batch %s is %s: %d lines are left", batch.id, "in time again" if was else "late", batch.left)
            self._calls.again()

    def _lines(self) -> Iterator[tuple[int, BatchLine]]:
        for number, text in lines_of(self._input):
            if not self._is_over(number):
                yield number, read_line(text)

    def _is_over(self, number: int) -> bool:
        return number < len(self._over) and self._over[number] == 1

    async def _line(self, number: int, line: BatchLine) -> None:
        """Run one line until it has an answer, and write that."""
        size_bytes = len(bytes(line.body))
        self._runner.held_bytes += size_bytes
        try:
            answer = await self._calls.answer(line.url, bytes(line.body))
            request_id = answer.headers.get("x-request-id", "")
            written = answer_line(number, line.custom_id, answer.status, request_id, answer.body)
            good = answer.status < 400
            await self._write(self._output if good else self._errors, written)
            self._count(good=good)
        finally:
            self._runner.held_bytes -= size_bytes

    def _count(self, *, good: bool) -> None:
        """A line is over."""
        self._batch.completed += good
        self._batch.failed += not good
        self._done += 1
        self._batches.lines["completed" if good else "failed"] += 1

    async def _finish(self) -> None:
        batch = self._batch
        if batch.status is not Status.CANCELLING:  # a cancelled one is that until its end
            batch.become(Status.FINALIZING, self._batches.now_s())
            await self._save()
        if batch.ending is not Status.COMPLETED:
            await self._recall()  # the last lines were broken off, and some of them may be written
        if batch.ending is Status.EXPIRED:
            await self._write_expired()
        made = []
        for file_id, kind, file in (
            (batch.output_id, "output", self._output),
            (batch.errors_id, "error", self._errors),
        ):
            if file.size_bytes:
                await self._disk(file.sync)
                name, size_bytes, now_s = f"{batch.id}_{kind}.jsonl", file.size_bytes, int(self._batches.now_s())
                owner, kept_s = batch.sender.tenant, batch.files_kept_s
                made.append(StoredFile(file_id, owner, name, "batch_output", size_bytes, now_s, kept_s))
            else:
                await self._disk(self._batches.folder.remove, file_id)
        batch.has_output, batch.has_errors = bool(self._output.size_bytes), bool(self._errors.size_bytes)
        batch.become(batch.ending, self._batches.now_s())
        await self._save(*made)

    async def _write_expired(self) -> None:
        """Write an error for each line that is not over."""
        async for part in _slices(self._lines()):
            for number, line in part:
                await self._write(self._errors, error_line(number, line.custom_id, *_EXPIRED))
                self._count(good=False)

    async def _save(self, *files: StoredFile) -> None:
        await self._runner.persist(lambda: self._batches.save(self._batch, *files))

    async def _write(self, file: LineFile, line: bytes) -> None:
        await self._disk(file.append, line)

    async def _disk(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Do this on the disk's thread, however long that is full."""
        return await self._runner.persist(lambda: self._batches.disk(work, *args, **named))


async def _slices(items: Iterator[T]) -> AsyncIterator[list[T]]:
    """The items in parts, each made on a thread."""
    while part := await asyncio.to_thread(lambda: list(islice(items, _SLICE))):
        yield part
        await asyncio.sleep(_PAUSE_S)


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
