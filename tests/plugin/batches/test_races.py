"""Batches under random interleavings: what clients do, what a disk does, and a server that ends at any await."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from batch_server import CHAT, Engine, Server, request

from headway.batches import Batches, runner
from headway.batches.folder import LineFile
from headway.batches.objects import Batch, Status, StoredFile, new_file_id
from headway.batches.service import FileInUseError, NoFileError, StorageFullError
from headway.http.access.identity import Sender
from headway.openai.batch_file import number_of

SEEDS = range(400 if os.environ.get("HEADWAY_LONG_TESTS") else 24)
SENDER = Sender("acme", "acme-1")
_WRITES = {"put", "append", "sync", "_add", "_add_batch", "_remove_file", LineFile.__name__}


class Disk:
    """A disk whose work waits before and after as it likes, in order, and which is full at times.

    It works on the event loop: a seed always gives the same run.
    """

    def __init__(self, random: Random) -> None:
        self.random, self.full, self._free = random, 0.0, asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def pause(self, most: int = 4) -> None:
        for _ in range(self.random.randrange(most)):
            await asyncio.sleep(0)

    def submit(self, work: Callable[..., Any], *args: Any) -> asyncio.Task[Any]:
        """Do this for nobody who waits, as an executor does."""
        return asyncio.create_task(self.work(work, *args))

    def shutdown(self, *, wait: bool) -> None:
        """All is done before a folder is closed (``idle``)."""

    async def idle(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def work(self, work: Callable[..., Any], *args: Any, **named: Any) -> Any:
        begun = False

        async def in_order() -> Any:
            nonlocal begun
            async with self._free:
                begun = True
                await self.pause()
                if getattr(work, "__name__", "") in _WRITES and self.random.random() < self.full:
                    raise StorageFullError
                done = work(*args, **named)
            await self.pause()
            return done

        task = asyncio.create_task(in_order())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not begun:  # as a thread drops what waits for it
                task.cancel()
            raise


class World:
    """One folder, its servers one after the other, and all that its clients were told."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder, self.disk, self.random = folder, disk, disk.random
        self.files: list[StoredFile] = []
        self.made: list[Batch] = []
        self.cancelled: dict[str, Status] = {}
        self.removed: set[str] = set()
        self.engine = Engine()
        self.engine.reply = lambda body: (400 if self.random.random() < 0.2 else 200, {}, {})
        self.server = self.start()

    def start(self) -> Server:
        self.server = Server(self.folder, self.engine, seats=3, names=("acme",))
        self.server.batches._thread = self.disk  # type: ignore[assignment]  # with what is called of an executor
        self.server.start()
        return self.server

    async def client(self) -> None:
        """Do something, again and again."""
        while True:
            await self.disk.pause(12)
            act = self.random.choice((self.create, self.create, self.cancel, self.expire, self.remove, self.remove))
            with suppress(StorageFullError, NoFileError, FileInUseError):
                await act(self.server.batches)

    async def create(self, batches: Batches) -> None:
        if not self.files or self.random.random() < 0.5:
            file_id, text = new_file_id(), b"".join(map(request, range(self.random.randrange(1, 7))))
            batches.folder.file(file_id).write_bytes(text)
            self.files.append(await batches.add_file(file_id, "acme", "in.jsonl", len(text)))
        window = self.random.choice((("1h", 3600), ("24h", 86_400)))
        self.made.append(await batches.add_batch(SENDER, self.random.choice(self.files), CHAT, window, None))

    async def cancel(self, batches: Batches) -> None:
        if batch := self.some(batches):
            was = batch.status
            await batches.cancel(batch)
            if was in (Status.VALIDATING, Status.IN_PROGRESS, Status.CANCELLING):
                self.cancelled.setdefault(batch.id, was)

    async def expire(self, batches: Batches) -> None:
        if (batch := self.some(batches)) and self.random.random() < 0.3:
            batch.expires_s = 0

    async def remove(self, batches: Batches) -> None:
        if self.files:
            file = self.random.choice(self.files)
            await batches.remove_file(file)
            self.removed.add(file.id)

    def some(self, batches: Batches) -> Batch | None:
        return self.random.choice([*batches.open.values(), None])

    async def live(self) -> None:
        """One life of the server: its clients go with it."""
        clients = [asyncio.create_task(self.client()) for _ in range(3)]
        await self.disk.pause(400)
        for client in clients:
            client.cancel()
        ends = await asyncio.gather(*clients, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends
        await self.server.stop()

    async def end(self) -> None:
        """A last life, in which all that has begun ends."""
        async with asyncio.timeout(20):
            while self.server.batches.open:  # noqa: ASYNC110 - nothing sets an event for it
                await asyncio.sleep(0)


@pytest.fixture
def on_the_loop(monkeypatch: pytest.MonkeyPatch) -> Callable[[Disk], None]:
    """Let all that would be done on threads be done by a disk."""

    def use(disk: Disk) -> None:
        async def work(batches: Batches, *args: Any, **named: Any) -> Any:
            return await disk.work(*args, **named)

        async def here(work: Callable[[], Any]) -> Any:
            if getattr(work, "__name__", "") == "close":
                await disk.idle()
            else:
                await disk.pause()
            return work()

        monkeypatch.setattr(Batches, "disk", work)
        monkeypatch.setattr(asyncio, "to_thread", here)

    for name, value in {"_PAUSE_S": 0.0, "_FULL_AGAIN_S": 0.0, "_SLICE": 2, "_TURN_S": 0.001}.items():
        monkeypatch.setattr(runner, name, value)
    return use


@pytest.mark.parametrize("seed", SEEDS)
async def test_every_batch_ends_as_its_client_was_told(
    seed: int, tmp_path: Path, on_the_loop: Callable[[Disk], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Over cancels, windows that end, deleted inputs, a full disk and restarts, wherever they come."""
    disk = Disk(Random(seed))
    on_the_loop(disk)
    world = World(tmp_path, disk)
    for full in (0.0, 0.3, 0.1):
        disk.full = full
        await world.live()
        world.start()
    disk.full = 0.0
    await world.end()
    batches = world.server.batches
    try:
        assert batches.store.open_batches() == []
        for made in world.made:
            batch = batches.store.batch("acme", made.id)
            assert batch is not None
            assert batch.ended
            if batch.id in world.cancelled:
                assert batch.status is Status.CANCELLED
            found = [*numbers(batches, batch.output_id), *numbers(batches, batch.errors_id)]
            assert (len(found), max(Counter(found).values(), default=1)) == (batch.completed + batch.failed, 1)
            if world.cancelled.get(batch.id) is Status.VALIDATING:
                assert found == [], "no line had run, and none was to run"
            if batch.status in (Status.COMPLETED, Status.EXPIRED):
                assert sorted(found) == list(range(1, batch.total + 1))
        assert {path.name for path in (tmp_path / "files").iterdir()} == batches.store.file_ids()
        assert not world.removed & batches.store.file_ids()
    finally:
        await world.server.stop()
    assert not [line.getMessage() for line in caplog.records if line.levelname == "ERROR" and "stopped" in line.msg]


def numbers(batches: Batches, file_id: str) -> Iterator[int]:
    """The numbers of the lines of an output; none where there is no such file."""
    path = batches.folder.file(file_id)
    for line in path.read_bytes().splitlines() if path.exists() else ():
        number = number_of(line)
        assert number is not None
        yield number
