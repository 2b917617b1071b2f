"""Batches from their file to their output: each line once, in the least urgent class, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from batch_server import ENDS, ZENITH, Engine, request, requests, serving
from prometheus_client import CollectorRegistry, generate_latest
from running_server import Scrape
from starlette.types import Receive, Scope, Send

from headway.batches import runner, service
from headway.batches.call import Calls
from headway.batches.folder import LineFile
from headway.batches.metrics import BatchCollector
from headway.batches.objects import Status
from headway.batches.pace import Pace
from headway.http.access.identity import Sender
from headway.operator.metrics import METRIC_NAMES


async def test_each_line_is_answered_once(tmp_path: Path) -> None:
    """In the least urgent class, for the tenant of the batch, with a bounded number in progress."""
    engine = Engine()
    engine.takes_s = 0.01
    async with serving(tmp_path, engine, seats=4) as server:
        batch = await server.create(requests(50), metadata={"of": "me"})
        assert batch["status"] == "validating"
        done = await server.ended(batch)
        assert done["status"] == "completed"
        assert done["request_counts"] == {"total": 50, "completed": 50, "failed": 0}
        assert (done["metadata"], done["error_file_id"]) == ({"of": "me"}, None)
        lines = await server.lines(done["output_file_id"])
    assert sorted(line["custom_id"] for line in lines) == sorted(f"r{number}" for number in range(50))
    assert all(line["response"]["status_code"] == 200 and line["error"] is None for line in lines)
    assert all(line["custom_id"] == f"r{line['response']['body']['echo']['number']}" for line in lines)
    assert {(asked["class"], asked["tenant"]) for asked in engine.asked} == {("batch", "acme")}
    assert 1 < engine.peak <= 6


async def test_a_line_that_fails_is_in_the_error_file(tmp_path: Path) -> None:
    """With its status and its body; the others are not touched."""
    engine = Engine()
    engine.reply = lambda body: (400, {"error": "bad"}, {}) if body["number"] % 2 else (200, {}, {})
    async with serving(tmp_path, engine) as server:
        done = await server.ended(await server.create(requests(10)))
        assert done["request_counts"] == {"total": 10, "completed": 5, "failed": 5}
        errors = await server.lines(done["error_file_id"])
        assert len(await server.lines(done["output_file_id"])) == 5
    assert {line["custom_id"] for line in errors} == {f"r{number}" for number in (1, 3, 5, 7, 9)}
    assert all(line["response"]["body"] == {"error": "bad"} for line in errors)


async def test_a_refusal_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that finds no room comes again, as often as it takes; one that must not come again is over."""
    engine, tried = Engine(), Counter[int]()

    def reply(body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        tried[body["number"]] += 1
        if body["number"] == 1:
            return 503, {"error": "poison"}, {"x-should-retry": "false"}
        return (200, {}, {}) if tried[body["number"]] > 6 else (429, {}, {"retry-after": "0"})

    engine.reply = reply
    async with serving(tmp_path, engine) as server:
        done = await server.ended(await server.create(requests(2)))
    assert done["request_counts"] == {"total": 2, "completed": 1, "failed": 1}
    assert tried == {0: 7, 1: 1}


@pytest.mark.parametrize("torn", [b"", b'{"id":"batch_req_1","custom_id":"r0","resp'], ids=["whole", "torn"])
async def test_a_restart_runs_what_is_not_written(tmp_path: Path, torn: bytes) -> None:
    """No line that is written runs again, and each is in the output once."""
    engine, again = Engine(), Engine()
    engine.takes_s = 0.02
    async with serving(tmp_path, engine, seats=2) as server:
        batch = await server.create(requests(30))
        await server.until(batch, lambda now: now["request_counts"]["completed"] >= 5)
    open_batch = server.batches.open[batch["id"]]
    output = server.batches.folder.file(open_batch.output_id)
    written = {json.loads(line)["custom_id"] for line in output.read_bytes().splitlines()}
    assert 5 <= len(written) < 30
    with output.open("ab") as file:
        file.write(torn)
    async with serving(tmp_path, again, seats=2) as server:
        done = await server.ended(batch)
        assert done["request_counts"] == {"total": 30, "completed": 30, "failed": 0}
        lines = await server.lines(done["output_file_id"])
    assert Counter(line["custom_id"] for line in lines) == {f"r{number}": 1 for number in range(30)}
    assert written.isdisjoint(f"r{asked['number']}" for asked in again.asked)


async def test_the_metrics_follow_the_lines(tmp_path: Path) -> None:
    """Every series is there from the start; those of all tenants together, whatever becomes of a batch."""
    engine, registry = Engine(), CollectorRegistry()
    engine.reply = lambda body: (400, {}, {}) if body["number"] == 1 else (200, {}, {})
    async with serving(tmp_path, engine) as server:
        registry.register(BatchCollector(server.batches))
        before = Scrape(generate_latest(registry).decode())
        own = ("headway_open_batches", "headway_late_batches", "headway_batch_lines_")
        assert {sample.name for sample in before.samples} == {name for name in METRIC_NAMES if name.startswith(own)}
        assert {status for status in Status if status not in ENDS} == {
            sample.labels["status"] for sample in before.samples if sample.name == "headway_open_batches"
        }
        await server.ended(await server.create(requests(5)))
        engine.takes_s = 30
        batch = await server.create(requests(20))
        await server.until(batch, lambda now: now["status"] == "in_progress")
        await server.create(requests(3))
        scrape = Scrape(generate_latest(registry).decode())
        assert scrape("headway_open_batches", status="in_progress") == 1
        assert scrape("headway_open_batches", status="validating") == 1
        assert scrape("headway_batch_lines_left") == 20
        assert scrape("headway_late_batches") == 0
        server.batches.open[batch["id"]].late = True
        assert Scrape(generate_latest(registry).decode())("headway_late_batches") == 1
        lines = {of: scrape("headway_batch_lines_total", outcome=of) for of in ("completed", "failed")}
        assert lines == {"completed": 4, "failed": 1}
        server.batches.open[batch["id"]].expires_s = 0
        await server.ended(batch)
        scrape = Scrape(generate_latest(registry).decode())
        assert scrape("headway_batch_lines_total", outcome="failed") == 21


async def test_the_status_has_the_batches_that_have_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that run before those that wait, the newest first, and no more than there is room for."""
    engine = Engine()
    engine.takes_s = 30
    monkeypatch.setattr(service, "MOST_SHOWN", 3)
    async with serving(tmp_path, engine) as server:
        done = await server.create(requests(0) + b"{")
        await server.ended(done)
        made = [(await server.create(requests(2)))["id"] for _ in range(4)]
        await server.until({"id": made[0]}, lambda now: now["status"] == "in_progress")
        server.batches.open[made[0]].needed_s = 7.0
        rows = server.batches.rows()
        assert [row.id for row in rows] == [made[0], made[3], made[2]]
        first = rows[0].model_dump(exclude={"expires", "id"})
        assert first == {
            "tenant": "acme", "state": "in_progress", "completed": 0, "failed": 0, "total": 2, "late": False,
            "left_s": 7.0,
        }  # fmt: skip
        ends_s = datetime.fromisoformat(rows[0].expires).timestamp()
        assert ends_s == server.batches.open[made[0]].expires_s


async def test_a_cancelled_batch_keeps_what_it_has(tmp_path: Path) -> None:
    engine = Engine()
    engine.takes_s = 0.05
    async with serving(tmp_path, engine, seats=2) as server:
        batch = await server.create(requests(200))
        await server.until(batch, lambda now: now["request_counts"]["completed"] >= 3)
        reply = await server.ask("POST", f"/v1/batches/{batch['id']}/cancel")
        assert (reply.status_code, reply.json()["status"]) == (200, "cancelling")
        done = await server.ended(batch)
        assert (done["status"], done["finalizing_at"]) == ("cancelled", None)
        lines = await server.lines(done["output_file_id"])
        assert len(lines) == done["request_counts"]["completed"] < 200
        again = await server.ask("POST", f"/v1/batches/{batch['id']}/cancel")
        assert (again.status_code, again.json()["error"]["code"]) == (409, "batch_ended")
    assert engine.running == 0


async def test_a_batch_can_be_cancelled_behind_its_last_checked_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the last part of its input and the end of validation: no line runs."""
    monkeypatch.setattr(runner, "_PAUSE_S", 0.5)
    engine = Engine()
    async with serving(tmp_path, engine) as server:
        batch = await server.create(requests(1))
        now = await server.until(batch, lambda now: now["request_counts"]["total"] == 1)
        assert now["status"] == "validating"
        await server.ask("POST", f"/v1/batches/{batch['id']}/cancel")
        assert (await server.ended(batch))["status"] == "cancelled"
    assert engine.asked == []


async def test_a_batch_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    """One of a tenant runs at a time, the one that is to end first; others of the tenant wait."""
    engine = Engine()
    engine.takes_s = 30
    async with serving(tmp_path, engine) as server:
        first = await server.create(requests(3))
        await server.until(first, lambda now: now["status"] == "in_progress")
        waiting, other = await server.create(requests(3)), await server.create(requests(2), ZENITH)
        await server.until(other, lambda now: now["status"] == "in_progress", ZENITH)
        assert (await server.ask("GET", f"/v1/batches/{waiting['id']}")).json()["status"] == "validating"
        await server.ask("POST", f"/v1/batches/{waiting['id']}/cancel")
        assert (await server.ended(waiting))["status"] == "cancelled"


async def test_a_batch_that_is_to_end_earlier_runs_first(tmp_path: Path) -> None:
    """One that runs gives it its turn, and goes on afterwards: no line is lost, and none is run twice."""
    engine = Engine()
    engine.takes_s = 0.02
    async with serving(tmp_path, engine, seats=2) as server:
        long = await server.create(requests(60))
        await server.until(long, lambda now: now["request_counts"]["completed"] >= 3)
        engine.asked.clear()
        short = await server.ended(await server.create(requests(20), window="1h"))
        assert short["status"] == "completed"
        between = await server.until(long, lambda now: True)
        assert between["request_counts"]["completed"] < 20
        done = await server.ended(long)
        assert done["request_counts"] == {"total": 60, "completed": 60, "failed": 0}
        lines = await server.lines(done["output_file_id"])
    assert Counter(line["custom_id"] for line in lines) == {f"r{number}": 1 for number in range(60)}
    assert len(engine.asked) <= 20 + 57


async def test_an_expired_batch_says_so_of_each_line(tmp_path: Path) -> None:
    engine = Engine()
    engine.takes_s = 30
    async with serving(tmp_path, engine) as server:
        batch = await server.create(requests(20))
        await server.until(batch, lambda now: now["status"] == "in_progress")
        server.batches.open[batch["id"]].expires_s = 0
        done = await server.ended(batch)
        assert (done["status"], done["output_file_id"]) == ("expired", None)
        errors = await server.lines(done["error_file_id"])
    assert Counter(line["custom_id"] for line in errors) == {f"r{number}": 1 for number in range(20)}
    assert {line["error"]["code"] for line in errors} == {"batch_expired"}


async def test_a_late_batch_leaves_the_queue_and_comes_in_the_default_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines that wait come again, and all get through."""
    engine = Engine()
    monkeypatch.setattr(runner, "_TURN_S", 0.05)
    monkeypatch.setattr(Pace, "judge", lambda pace, left, left_s: setattr(pace, "late", True) or True)
    async with serving(tmp_path, engine) as server:
        engine.takes_s = 30
        batch = await server.create(requests(3))
        await server.until(batch, lambda now: len(engine.asked) >= 3)
        engine.takes_s = 0
        done = await server.ended(batch)
    assert done["status"] == "completed"
    assert [asked["class"] for asked in engine.asked[:3]] == ["batch"] * 3
    assert {asked["class"] for asked in engine.asked[3:]} == {server.preset.default_class}


async def test_a_late_batch_waits_no_longer_for_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the least urgent class was told to wait does not hold for the other."""
    engine = Engine()
    engine.reply = lambda body: (
        (429, {}, {"retry-after": "60"}) if engine.asked[-1]["class"] == "batch" else (200, {}, {})
    )
    monkeypatch.setattr(runner, "_TURN_S", 0.05)
    monkeypatch.setattr(Pace, "judge", lambda pace, left, left_s: setattr(pace, "late", True) or True)
    async with serving(tmp_path, engine) as server:
        done = await server.ended(await server.create(requests(3)))
    assert done["status"] == "completed"
    assert Counter(asked["class"] for asked in engine.asked) == {"batch": 3, server.preset.default_class: 3}


async def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """One line in the log; the answers wait, and are written when there is room."""
    engine, full, append = Engine(), True, LineFile.append

    def fails(file: LineFile, line: bytes) -> None:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(file, line)

    monkeypatch.setattr(LineFile, "append", fails)
    monkeypatch.setattr(runner, "_FULL_AGAIN_S", 0.05)
    async with serving(tmp_path, engine, seats=4) as server:
        batch = await server.create(requests(20))
        await asyncio.sleep(0.3)
        assert len(engine.asked) <= 6, "what cannot be written is not run"
        full = False
        done = await server.ended(batch)
        lines = await server.lines(done["output_file_id"])
    assert len({line["custom_id"] for line in lines}) == len(lines) == len(engine.asked) == 20
    assert sum("cannot be written" in record.getMessage() for record in caplog.records) == 1


def test_what_a_full_disk_has_written_of_a_line_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, pwrite = LineFile(tmp_path / "out"), os.pwrite
    file.append(b"first\n")

    def half(handle: int, data: Any, at: int) -> int:
        if len(data) < 4:
            raise OSError(errno.ENOSPC, "full")
        return pwrite(handle, data[: len(data) - 3], at)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(OSError, match="full"):
        file.append(b"second line\n")
    monkeypatch.undo()
    assert (tmp_path / "out").read_bytes() == b"first\n"
    file.append(b"third\n")
    file.close()
    assert (tmp_path / "out").read_bytes() == b"first\nthird\n"


async def test_a_key_that_was_taken_away_runs_no_more_lines(tmp_path: Path) -> None:
    """Each line that is left has the error of a key that is not known."""
    engine = Engine()
    engine.takes_s = 0.02
    async with serving(tmp_path, engine, seats=1) as server:
        batch = await server.create(requests(20))
        await server.until(batch, lambda now: now["request_counts"]["completed"] >= 2)
    async with serving(tmp_path, engine, names=("zenith",)) as server:
        open_batch = server.batches.open[batch["id"]]
        while not open_batch.ended:  # noqa: ASYNC110 - nothing sets an event for it
            await asyncio.sleep(0.01)
    assert open_batch.completed + open_batch.failed == 20
    errors = server.batches.folder.file(open_batch.errors_id).read_text().splitlines()
    assert {json.loads(line)["response"]["status_code"] for line in errors} == {401}


async def test_every_problem_of_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    """And none of its lines runs."""
    engine = Engine()
    text = b"\n".join(
        [
            request(0).strip(), b"{", request(0).strip(), request(2, url="/v1/embeddings").strip(), b"",
            request(3, method="GET").strip(), request(4, body={"stream": True}).strip(), request(5, body=[]).strip(),
            request(6, custom_id="").strip(), b'{"custom_id":"x"}',
        ]
    )  # fmt: skip
    async with serving(tmp_path, engine) as server:
        done = await server.ended(await server.create(text))
    found = [(problem["line"], problem["code"], problem["param"]) for problem in done["errors"]["data"]]
    assert found == [
        (2, "invalid_json_line", None), (3, "duplicate_custom_id", "custom_id"), (4, "invalid_url", "url"),
        (6, "invalid_method", "method"), (7, "unsupported", "body.stream"), (8, "invalid_json_line", "body"),
        (9, "invalid_custom_id", "custom_id"), (10, "invalid_json_line", None),
    ]  # fmt: skip
    assert (done["status"], engine.asked) == ("failed", [])
    assert (done["output_file_id"], done["error_file_id"]) == (None, None)


async def test_a_line_without_an_end_is_refused(tmp_path: Path) -> None:
    """Where it begins, without reading the rest."""
    async with serving(tmp_path, Engine()) as server:
        done = await server.ended(await server.create(request(0) + b"x" * 9_000_000))
    assert [(problem["line"], problem["code"]) for problem in done["errors"]["data"]] == [(2, "line_too_long")]


async def test_of_a_file_full_of_problems_a_few_are_told(tmp_path: Path) -> None:
    async with serving(tmp_path, Engine()) as server:
        done = await server.ended(await server.create(b"{\n" * 1000))
    assert len(done["errors"]["data"]) == 20


async def test_a_stopped_server_leaves_no_torn_state(tmp_path: Path) -> None:
    """A batch that was validating is validated again."""
    async with serving(tmp_path, Engine()) as server:
        server.batches.wake.clear()
        batch = await server.create(requests(1500))
    async with serving(tmp_path, Engine(), seats=64) as server:
        assert (await server.ended(batch))["request_counts"]["total"] == 1500


async def test_refusals_use_up_no_try_of_a_line() -> None:
    """The first error of the server after many of them is no final answer."""
    statuses = [429, 429, 503, 429, 500, 502, 504, 200]
    asked: list[int] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(statuses[len(asked)])
        await send({"type": "http.response.start", "status": asked[-1], "headers": [(b"retry-after", b"0")]})
        await send({"type": "http.response.body", "body": b"{}"})

    calls = Calls(application, "b", Sender("t"), lambda: "batch")
    answering = asyncio.create_task(calls.answer("/v1/chat/completions", b"{}"))
    while not answering.done():
        await asyncio.sleep(0.01)
        calls.again()
    assert ((await answering).status, asked) == (200, statuses)


async def test_a_server_that_stops_while_it_checks_a_file_counts_it_once(tmp_path: Path) -> None:
    """It begins anew; what the earlier check has counted, and what was noted of it, are no lines of its own."""
    async with serving(tmp_path, Engine()) as server:
        batch = await server.create(requests(600))
        one = server.batches.open[batch["id"]]
        while one.status is Status.VALIDATING and one.total < 200:  # noqa: ASYNC110 - it is over in a moment
            await asyncio.sleep(0)
        await server.batches.note()
    async with serving(tmp_path, Engine()) as server:
        done = await server.ended(batch)
    assert done["request_counts"] == {"total": 600, "completed": 600, "failed": 0}
