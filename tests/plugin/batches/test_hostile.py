"""Files and batches against clients, disks and clocks that do their worst."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from batch_server import CHAT, ZENITH, Engine, request, requests, serving
from forked import in_a_fork

from headway.batches import Batches, folder, runner, service, store, validation
from headway.batches.folder import LineFile, lines_of
from headway.batches.objects import Batch, Status
from headway.batches.service import StorageFullError
from headway.errors import HeadwayError
from headway.http.access.identity import Sender

DAY_S = 86_400.0


@pytest.mark.parametrize("days", [60, -60])
async def test_a_clock_that_jumps_ends_no_window_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """A batch of a day goes on where the clock is set by months, and its files are not too old."""
    engine, right = Engine(), time.time
    engine.takes_s = 0.02
    monkeypatch.setattr(runner, "_TIDY_EVERY_S", 0.05)
    async with serving(tmp_path, engine, seats=2) as server:
        batch = await server.create(requests(20))
        await server.until(batch, lambda now: now["request_counts"]["completed"] >= 3)
        monkeypatch.setattr(time, "time", lambda: right() + days * DAY_S)
        done = await server.ended(batch)
        assert (done["status"], done["request_counts"]["completed"]) == ("completed", 20)
        assert done["created_at"] <= done["completed_at"] < done["created_at"] + DAY_S
        await server.ended(await server.create(requests(1)))  # which has the runner look for old files
        assert len(await server.lines(done["output_file_id"])) == 20


@pytest.mark.parametrize("hours", [30, -30, 9000, -9000])
async def test_a_start_with_a_wrong_clock_neither_ends_a_batch_nor_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """A window goes on with what it had left, over that start and the next with the right clock, and then ends."""
    engine, right, steady = Engine(), time.time, service._passed_s
    engine.takes_s = 30
    passed_s = off_s = 0.0
    monkeypatch.setattr(time, "time", lambda: right() + passed_s + off_s)
    monkeypatch.setattr(service, "_passed_s", lambda: steady() + passed_s)
    monkeypatch.setattr(runner, "_NOTE_EVERY_S", 0.01)
    made: list[dict[str, Any]] = []
    for off_s in (0.0, hours * 3600.0, 0.0):  # noqa: B007 - the clock above reads it
        async with serving(tmp_path, engine, seats=1) as server:
            made = made or [await server.create(requests(1)), await server.create(requests(1))]
            left_s = [batch.expires_s - server.batches.now_s() for batch in server.batches.open.values()]
            assert left_s == pytest.approx([DAY_S - passed_s] * 2, abs=60)
            passed_s += 9 * 3600
            found = server.batches
            if passed_s < DAY_S:
                while not all(  # noqa: ASYNC110 - nothing sets an event for it
                    abs(batch.expires_s - batch.seen_s - DAY_S + passed_s) < 60
                    for batch in await found.disk(found.store.open_batches)
                ):
                    await asyncio.sleep(0.01)
            else:
                assert {(await server.ended(batch))["status"] for batch in made} == {"expired"}


async def test_a_start_with_a_clock_that_is_ahead_removes_no_file_once_it_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is old where both clocks say so."""
    async with serving(tmp_path, Engine()) as server:
        file_id = await server.upload(b"x")
    right = time.time
    off_s = 60 * DAY_S
    monkeypatch.setattr(time, "time", lambda: right() + off_s)
    async with serving(tmp_path, Engine()) as server:
        for off_s, status in ((0.0, 200), (60 * DAY_S, 404)):  # noqa: B007 - the clock above reads it
            await server.batches.tidy()
            assert (await server.ask("GET", f"/v1/files/{file_id}")).status_code == status


async def test_what_a_window_has_left_is_noted_of_no_batch_whose_end_is_not_written(tmp_path: Path) -> None:
    """The end is written with the files that the batch has made: a server that is killed before runs it to its end."""
    engine = Engine()
    engine.takes_s = 30
    async with serving(tmp_path, engine) as server:
        batch = server.batches.open[(await server.create(requests(1)))["id"]]
        was, batch.status = batch.status, Status.COMPLETED
        await server.batches.note()
        assert [one.id for one in await server.batches.disk(server.batches.store.open_batches)] == [batch.id]
        batch.status = was


async def test_a_disk_that_is_full_where_old_files_are_removed_stops_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are removed at another time."""

    async def full(batches: Batches) -> None:
        raise StorageFullError

    monkeypatch.setattr(Batches, "tidy", full)
    async with serving(tmp_path, Engine()) as server:
        for _ in range(2):
            assert (await server.ended(await server.create(requests(3))))["status"] == "completed"


async def test_a_batch_whose_output_cannot_be_made_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that cannot be written; it needs no other start of the server."""
    left = 3

    class Full(LineFile):
        def __init__(self, path: Path) -> None:
            nonlocal left
            left -= 1
            if left >= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            super().__init__(path)

    monkeypatch.setattr(runner, "LineFile", Full)
    monkeypatch.setattr(runner, "_FULL_AGAIN_S", 0.01)
    async with serving(tmp_path, Engine()) as server:
        assert (await server.ended(await server.create(requests(3))))["status"] == "completed"


async def test_a_database_that_another_process_has_locked_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A client is told when to come again and nothing is changed; a batch in work goes on once it is unlocked."""
    engine = Engine()
    engine.takes_s = 0.02
    monkeypatch.setattr(store, "_LOCKED_S", 0.05)
    monkeypatch.setattr(runner, "_FULL_AGAIN_S", 0.05)
    async with serving(tmp_path, engine, seats=2) as server:
        batch = await server.create(requests(30))
        await server.until(batch, lambda now: now["request_counts"]["completed"] >= 3)
        with closing(sqlite3.connect(tmp_path / "batches.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            form: Any = {"data": {"purpose": "batch"}, "files": {"file": b"x"}}
            wanted = {"input_file_id": batch["input_file_id"], "endpoint": CHAT, "completion_window": "24h"}
            for path, asked in (("/v1/files", form), ("/v1/batches", {"json": wanted})):
                reply = await server.ask("POST", path, **asked)
                assert (reply.status_code, reply.json()["error"]["code"]) == (503, "storage_locked")
                assert int(reply.headers["retry-after"]) > 0
            await server.until(batch, lambda now: now["status"] == "finalizing")
            while not any("batches wait" in line.getMessage() for line in caplog.records):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
            other.execute("ROLLBACK")
        assert (await server.ended(batch))["request_counts"]["completed"] == 30
        assert [one["id"] for one in (await server.ask("GET", "/v1/batches")).json()["data"]] == [batch["id"]]
    assert len(engine.asked) == 30


async def test_a_batch_is_cancelled_where_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client learns it, and another call tries again; no line runs meanwhile."""
    engine, full, put = Engine(), True, store.BatchStore.put

    def fails(kept: store.BatchStore, rows: Any) -> None:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        put(kept, rows)

    monkeypatch.setattr(runner, "_FULL_AGAIN_S", 0.01)
    engine.takes_s = 30
    async with serving(tmp_path, engine, seats=1) as server:
        first, waits = await server.create(requests(1)), await server.create(requests(5))
        await server.until(first, lambda now: now["status"] == "in_progress")
        while server.batches.wake.is_set():  # noqa: ASYNC110 - until the runner has seen the other one
            await asyncio.sleep(0.01)
        monkeypatch.setattr(store.BatchStore, "put", fails)
        cancel = f"/v1/batches/{waits['id']}/cancel"
        for _ in range(2):
            reply = await server.ask("POST", cancel)
            assert (reply.status_code, reply.json()["error"]["code"]) == (507, "storage_full")
        full = False
        done = await server.ended(waits)
    assert (done["status"], done["request_counts"]["completed"]) == ("cancelled", 0)
    assert len(engine.asked) == 1


async def test_a_client_that_leaves_as_its_batch_begins_leaves_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no id of it, and comes again: no line runs twice. Its file can be deleted."""
    engine, begun, goes_on, add = Engine(), threading.Event(), threading.Event(), Batches._add_batch

    def slowly(batches: Batches, batch: Batch) -> None:
        begun.set()
        goes_on.wait(10)
        add(batches, batch)

    monkeypatch.setattr(Batches, "_add_batch", slowly)
    async with serving(tmp_path, engine) as server:
        file = server.batches.store.file("acme", await server.upload(requests(3)))
        assert file is not None
        window = ("24h", 86_400)
        leaves = asyncio.create_task(server.batches.add_batch(Sender("acme", "acme-1"), file, CHAT, window, None))
        await asyncio.to_thread(begun.wait, 10)
        leaves.cancel()
        await asyncio.wait([leaves])
        goes_on.set()
        assert (await server.ask("DELETE", f"/v1/files/{file.id}")).status_code == 200
        assert server.batches.store.open_batches() == []
    assert engine.asked == []


async def test_more_tenants_than_may_run_take_turns_by_their_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of a day leaves its place to another tenant's of an hour, and goes on behind it: each line once."""
    monkeypatch.setattr(runner, "_MAX_RUNNING", 1)
    engine = Engine()
    engine.takes_s = 0.02
    async with serving(tmp_path, engine, seats=2) as server:
        long = await server.create(requests(60))
        await server.until(long, lambda now: now["request_counts"]["completed"] >= 3)
        short = await server.ended(await server.create(requests(20), ZENITH, window="1h"), ZENITH)
        between = await server.until(long, lambda now: True)
        assert (short["status"], between["status"]) == ("completed", "in_progress")
        done = await server.ended(long)
        lines = await server.lines(done["output_file_id"])
    assert Counter(line["custom_id"] for line in lines) == {f"r{number}": 1 for number in range(60)}
    assert len(engine.asked) == 80


async def test_uploads_of_many_tenants_at_once_stay_within_all_bytes(tmp_path: Path) -> None:
    """Each would fit alone; names of tenants are no way to more room."""
    names = tuple(f"t{number}" for number in range(8))
    async with serving(tmp_path, Engine(), names=names, HEADWAY_BATCH_BYTES="400000") as server:
        form: Any = {"data": {"purpose": "batch"}, "files": {"file": b"x" * 150_000}}
        replies = await asyncio.gather(*(server.ask("POST", "/v1/files", f"hw-{name}", **form) for name in names))
        codes = {reply.json()["error"]["code"] for reply in replies if reply.status_code != 200}
        assert codes == {"storage_full"}
        sizes = [path.stat().st_size for path in (tmp_path / "files").iterdir()]
        assert sum(sizes) <= 400_000
        form["files"]["file"] = b"x" * (400_000 - sum(sizes))
        replies = [await server.ask("POST", "/v1/files", f"hw-{name}", **form) for name in names]
        assert any(reply.status_code == 200 for reply in replies), "what was refused has left its room"


async def test_ended_batches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that begins and cancels without end fills no disk: its own oldest go, then those of all."""
    monkeypatch.setattr("headway.batches.service._COUNTED_EVERY", 1)
    monkeypatch.setattr(store, "MAX_TENANT_BATCHES", 4)
    engine = Engine()
    async with serving(tmp_path, engine) as server:
        other = await server.ended(await server.create(requests(1), ZENITH), ZENITH)
        made = [await server.ended(await server.create(b"{\n")) for _ in range(6)]
        listed = (await server.ask("GET", "/v1/batches")).json()["data"]
        assert [batch["id"] for batch in listed] == [batch["id"] for batch in reversed(made[-4:])]
        assert (await server.ask("GET", f"/v1/batches/{other['id']}", ZENITH)).status_code == 200
        engine.takes_s = 30
        monkeypatch.setattr(store, "MAX_BATCHES", 2)
        kept = await server.create(requests(1))
        await server.ended(await server.create(b"{\n", ZENITH), ZENITH)
        await server.ended(await server.create(b"{\n", ZENITH), ZENITH)
        last = await server.ended(await server.create(b"{\n", ZENITH), ZENITH)
        await server.batches.tidy()
        listed = (await server.ask("GET", "/v1/batches")).json()["data"]
        assert [batch["id"] for batch in listed] == [kept["id"]], "one that has not ended is kept"
        assert last["id"] in [b["id"] for b in (await server.ask("GET", "/v1/batches", ZENITH)).json()["data"]]


def test_a_folder_is_one_servers(tmp_path: Path) -> None:
    """Another process is refused in one line, and gets it once the first has ended."""

    def begin() -> str:
        try:
            Batches.from_environment({"HEADWAY_BATCH_DIR": str(tmp_path)})
        except HeadwayError as error:
            return str(error)
        return "has it"

    def other() -> str:
        return in_a_fork(begin, {})

    first = Batches.from_environment({"HEADWAY_BATCH_DIR": str(tmp_path)})
    assert first is not None
    assert other() == f"HEADWAY_BATCH_DIR ({tmp_path}): another server has this folder: give each server one of its own"
    first.close()
    assert other() == "has it"


@pytest.mark.parametrize("kind", ["no database", "of something else", "cut off", "a wrong document", "a file"])
async def test_a_broken_folder_refuses_the_start(tmp_path: Path, kind: str) -> None:
    """In one line that names the variable; what is there stays as it is."""
    folder = tmp_path / "batches"
    database = folder / "batches.db"
    if kind == "a file":
        folder.write_text("")
    else:
        async with serving(folder, Engine()) as server:
            await server.create(requests(3), metadata={f"k{number}": "v" * 512 for number in range(16)})
        with closing(sqlite3.connect(database, isolation_level=None)) as other:
            if kind == "of something else":
                other.execute("PRAGMA application_id = 1")
            elif kind == "a wrong document":
                other.execute("UPDATE objects SET document = '{}', open = 1 WHERE kind = 'batch'")
        if kind == "no database":
            database.write_bytes(b"no database" * 1000)
        elif kind == "cut off":
            database.write_bytes(database.read_bytes()[: 4096 * 2])
    kept = folder if kind == "a file" else database
    before = kept.read_bytes()
    with pytest.raises(HeadwayError, match=r"HEADWAY_BATCH_DIR \(.*\): cannot be used") as caught:
        Batches.from_environment({"HEADWAY_BATCH_DIR": str(folder)})
    assert "\n" not in str(caught.value)
    assert kept.read_bytes() == before


@pytest.mark.parametrize("text", [b"\n", b" \r\n\t\n\n"])
async def test_a_file_without_lines_has_none(tmp_path: Path, text: bytes) -> None:
    async with serving(tmp_path, Engine()) as server:
        done = await server.ended(await server.create(text))
    assert [(problem["line"], problem["code"]) for problem in done["errors"]["data"]] == [(None, "empty_file")]
    assert done["request_counts"]["total"] == 0


def test_empty_lines_count_as_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a file of nothing else would hold up the disk thread of all tenants for minutes."""
    for module in (folder, validation):
        monkeypatch.setattr(module, "MAX_LINES", 100)
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\n" * 5_000 + request(1))
    assert list(lines_of(path)) == [(101, b"\n")]
    (problem,) = validation.problems(lines_of(path), CHAT)
    assert problem is not None
    assert (problem.code, problem.line) == ("too_many_lines", 101)
    path.write_bytes(b"\n" * 99 + request(1))
    assert list(validation.problems(lines_of(path), CHAT)) == [None]
