"""The end of a server: what of the accounting is in the database, however it ends."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from usage_records import opened, record, requests, sums

from headway_policies.usage import Period


def test_what_was_added_is_written_within_a_second_and_is_the_owners_alone(tmp_path: Path) -> None:
    """And nothing is lost at a close."""
    path = tmp_path / "usage.db"
    with opened(path) as usage:
        for number in range(500):
            usage.add(record(f"t{number % 7}"))
        assert usage.flush(10)
        assert requests(path).requests == 500
        usage.add(record())
    assert requests(path).requests == 501
    assert usage.lost == 0
    assert path.stat().st_mode & 0o777 == 0o600


def test_records_of_several_threads_are_written_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones may come at once: two writers with one connection would end the process."""
    started, start = list[threading.Thread](), threading.Thread.start

    def slowly(thread: threading.Thread) -> None:
        if thread.name == "headway usage":
            started.append(thread)
            time.sleep(0.1)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", slowly)
    with opened(tmp_path / "usage.db") as usage:
        adding = [threading.Thread(target=usage.add, args=(record(),)) for _ in range(4)]
        for thread in adding:
            thread.start()
        for thread in adding:
            thread.join()
        assert usage.flush(10)
    assert len(started) == 1


@pytest.mark.slow
def test_a_killed_server_loses_what_ended_in_its_last_second(tmp_path: Path) -> None:
    """What was there for longer is in the database, whole."""
    program = """
import sys, time
from headway.usage import UsageLog, UsageStore
from headway_policies.usage import Figures, Group, UsageRecord
from pathlib import Path
usage = UsageLog(UsageStore(Path(sys.argv[1])))
for number in range(10_000_000):
    usage.add(UsageRecord(time.time(), Group("a", "", "normal", "m", "", "completed", ""), Figures(1, 0, number, 0, 1)))
    print(number, time.monotonic(), flush=True)
    time.sleep(0.002)
"""
    path = tmp_path / "usage.db"
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = [child.stdout.readline().split() for _ in range(1000)]
        os.kill(child.pid, signal.SIGKILL)
        said += [line.split() for line in child.stdout if line.endswith("\n")]
    with closing(sqlite3.connect(path)) as connection:
        kept = [row[0] for row in connection.execute("SELECT prompt_tokens FROM requests ORDER BY rowid")]
    assert kept == list(range(len(kept)))
    lost = [float(at_s) for number, at_s in said if int(number) >= len(kept)]
    assert not lost or float(said[-1][1]) - lost[0] <= 1.0
    assert [sums(path, period).requests for period in Period] == [len(kept)] * 3


@pytest.mark.slow
@pytest.mark.parametrize("earlier", [0, 1])
def test_a_server_that_ends_writes_what_it_hands_over_last(earlier: int, tmp_path: Path) -> None:
    """A request that is over while the engine has not reported its end, whether there was a record before or not."""
    program = """
import asyncio, atexit, sys
from pathlib import Path

from headway.admission import RequestContext
from headway.engine.fake import FakeEngine
from headway.engine.port import PlainAdapter
from headway.engine_service import EngineService
from headway.operator import PresetCatalogue
from headway.usage import UsageLog, UsageStore
from headway_policies import Ending

async def serve():
    usage, catalogue = UsageLog(UsageStore(Path(sys.argv[1]))), PresetCatalogue()
    service = EngineService(FakeEngine(), PlainAdapter(), catalogue.resolve("balanced"), catalogue, usage=usage)
    atexit.register(service.close_usage)
    gateway = service.parts.gateway
    for name in sys.argv[2:]:
        permit = gateway.reserve(RequestContext(tenant=name), 1)
        call = gateway.link.calls.open(permit, name, 1, unstreamed=False, ends_late=False)
        permit.leave(Ending.CANCELLED)
        if name == "earlier":
            gateway.link.calls.close(call, stopping=False)
            assert usage.flush(10)

asyncio.run(serve())
"""
    path, tenants = tmp_path / "usage.db", [*["earlier"] * earlier, "last"]
    subprocess.run([sys.executable, "-c", program, str(path), *tenants], check=True, timeout=120)
    with closing(sqlite3.connect(path)) as connection:
        assert [row[0] for row in connection.execute("SELECT tenant FROM requests ORDER BY rowid")] == tenants


def test_a_process_that_starts_no_thread_any_more_writes_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Python 3.12 refuses while it ends."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    path = tmp_path / "usage.db"
    with opened(path) as usage, monkeypatch.context() as ends:
        ends.setattr(threading.Thread, "start", refuse)
        usage.add(record())
    assert requests(path).requests == 1
