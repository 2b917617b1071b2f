"""The database of the accounting, and the queue before it: what is written, what is bounded, and what is lost when."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running_server import wait_until
from usage_records import NOW_S, opened, record, requests, sums

from headway.errors import HeadwayError
from headway.usage import UsageLog, UsageReader, UsageStore, store, usage_log
from headway_policies.usage import OTHER, Period, UsageRecord, read_query, total


class Crash(BaseException):
    """The process ended here."""


class Crashing(sqlite3.Connection):
    """A connection that ends with the process at one of its statements."""

    left = -1

    def execute(self, *arguments: object) -> sqlite3.Cursor:  # type: ignore[override]  # as it is called here
        """As its own, until it ends."""
        self.step()
        return super().execute(*arguments)  # type: ignore[arg-type]  # passed on

    def executemany(self, *arguments: object) -> sqlite3.Cursor:  # type: ignore[override]  # as it is called here
        """As its own, until it ends."""
        self.step()
        return super().executemany(*arguments)  # type: ignore[arg-type]  # passed on

    def step(self) -> None:
        """Count a statement; what was not committed is gone with the process."""
        if Crashing.left == 0:
            self.close()
            raise Crash
        Crashing.left -= 1


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 200_000)), max_size=8), st.integers(-1, 12)
        ),
        max_size=6,
    )
)
def test_no_request_is_counted_twice_or_in_part_wherever_the_process_ends(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[list[tuple[str, int]], int]]
) -> None:
    """A batch that a crash interrupted is there as a whole or not at all; all sums are those of the requests."""
    path = tmp_path_factory.mktemp("usage") / "usage.db"
    written: list[UsageRecord] = []
    for batch, statements in batches:
        records = [record(tenant, NOW_S + after_s) for tenant, after_s in batch]
        kept = UsageStore(path)
        kept.check()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Crashing))
            Crashing.left = -1
            kept._opened()
            Crashing.left = statements
            try:
                kept.write(records)
            except (Crash, sqlite3.ProgrammingError):  # the latter of the roll-back, on what is closed
                pass
            else:
                written += records
            Crashing.left = -1
            kept.close()
    if path.exists():
        wanted = total(each.figures for each in written)
        assert requests(path) == wanted
        assert [sums(path, period) for period in Period] == [wanted] * 3


def test_records_wait_while_another_program_locks_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning; they are written once it is free, with a line more; beyond the bound they are lost, and counted."""
    monkeypatch.setattr(usage_log, "MAX_WAITING", 10)
    monkeypatch.setattr(usage_log, "_AGAIN_S", 0.01)
    monkeypatch.setattr(store, "_LOCKED_S", 0.01)
    path = tmp_path / "usage.db"
    with opened(path) as usage, caplog.at_level(logging.WARNING):
        usage.add(record())
        assert usage.flush(10)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            for _ in range(15):
                usage.add(record())
            assert not usage.flush(0.3)
            assert (usage.waiting, usage.lost) == (10, 5)
            other.execute("ROLLBACK")
        wait_until(lambda: not usage.waiting, "what waited is written, without being asked for")
        assert usage.flush(10)
    assert requests(path).requests == sums(path, Period.DAY).requests == 11
    locked, again = (line.getMessage() for line in caplog.records)
    assert "locked" in locked
    assert "requests go on" in locked
    assert "written again; 5 requests are lost" in again


def _of_something_else(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (x)")


def _cut_off(path: Path) -> None:
    with opened(path) as usage:
        for number in range(2000):
            usage.add(record(f"t{number}"))
        assert usage.flush(10)
    path.write_bytes(path.read_bytes()[: 4096 * 2])


BROKEN: dict[str, Callable[[Path], object]] = {
    "cut off": _cut_off,
    "not a database": lambda path: path.write_bytes(b"no database" * 1000),
    "of something else": _of_something_else,
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_is_no_database_of_headway_is_left_as_it_is(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server starts, with one warning; once the file is moved away what waits is written to another one."""
    monkeypatch.setattr(usage_log, "_AGAIN_S", 0.01)
    path = tmp_path / "usage.db"
    BROKEN[kind](path)
    before = path.read_bytes()
    with caplog.at_level(logging.WARNING):
        usage = UsageLog.from_environment({"HEADWAY_USAGE_DB": str(path)})
        assert usage is not None
        usage.add(record())
        assert not usage.flush(0.3)
        assert path.read_bytes() == before
        path.rename(tmp_path / "moved")
        assert usage.flush(10)
        usage.close()
    assert len(caplog.records) == 2
    assert requests(path).requests == 1


def test_a_disk_that_is_full_costs_no_request_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is written when there is room; what is torn is not seen."""
    monkeypatch.setattr(usage_log, "_AGAIN_S", 0.01)
    path = tmp_path / "usage.db"
    with opened(path) as usage:
        usage.add(record())
        assert usage.flush(10)
        connection = usage.store._connection
        assert connection is not None
        monkeypatch.setattr(store, "_set_up", lambda opened: opened.execute("PRAGMA max_page_count = 1"))
        connection.execute("PRAGMA max_page_count = 1")
        for number in range(2000):
            usage.add(record(f"t{number}"))
        assert not usage.flush(0.5)
        assert requests(path).requests == sums(path, Period.MINUTE).requests == 1
        monkeypatch.setattr(store, "_set_up", lambda opened: opened.execute("PRAGMA max_page_count = 1000000"))
        assert usage.flush(10)
    assert (requests(path).requests, usage.lost) == (2001, 0)


REFUSED = {
    "no such folder": "/no/such/folder/usage.db",
    "a folder": "/tmp",
    "a device": "/dev/null",
    "a null byte": "a\0b",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_path_where_there_can_be_no_database_refuses_the_start(kind: str) -> None:
    """In one line that names the variable."""
    with pytest.raises(HeadwayError, match=r"HEADWAY_USAGE_DB \(.*\): cannot be opened") as caught:
        UsageLog.from_environment({"HEADWAY_USAGE_DB": REFUSED[kind]})
    assert "\n" not in str(caught.value)


def test_wrong_prices_refuse_the_start(tmp_path: Path) -> None:
    """In one line that names the variable and the place."""
    prices = tmp_path / "prices.toml"
    given = {"HEADWAY_USAGE_DB": str(tmp_path / "usage.db"), "HEADWAY_USAGE_PRICES": str(prices)}
    with pytest.raises(HeadwayError, match="HEADWAY_USAGE_PRICES"):
        UsageLog.from_environment(given)
    prices.write_text("[[prices]]\nprompt = 1")
    with pytest.raises(HeadwayError, match=r"HEADWAY_USAGE_PRICES \(.*\): prices.0.output"):
        UsageLog.from_environment(given)
    assert UsageLog.from_environment({}) is None


def test_two_servers_share_a_database(tmp_path: Path) -> None:
    """They add to the same rows, and neither takes anything of the other's."""
    path = tmp_path / "usage.db"
    (tmp_path / "link").symlink_to(tmp_path)
    with opened(path) as first, opened(path) as second:
        for _ in range(20):
            for usage in (first, second):
                usage.add(record())
                time.sleep(0.002)
        assert first.flush(10)
        assert second.flush(10)
        names = {one.store.identity() for one in (first, second, UsageLog(UsageStore(tmp_path / "link" / path.name)))}
    assert requests(path).requests == 40
    assert [sums(path, period).requests for period in Period] == [40] * 3
    assert len(names - {None}) == 1, "a reader of both counts it once"


def test_what_is_beyond_the_bounds_is_removed_and_a_jump_of_the_clock_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest periods that have rows stay, so many of each kind, whatever the clock says."""
    monkeypatch.setattr(store, "_KEPT", {Period.MINUTE: 3, Period.HOUR: 2, Period.DAY: 2})
    monkeypatch.setattr(store, "MAX_REQUESTS", 4)
    kept, path = UsageStore(tmp_path / "usage.db"), tmp_path / "usage.db"
    for minute in range(5):
        kept.write([record(ended_s=NOW_S + 60 * minute)])
    kept.prune()
    assert (requests(path).requests, sums(path, Period.MINUTE).requests) == (4, 3)
    kept.write([record(ended_s=NOW_S + 1e9)])
    kept.prune()
    assert (sums(path, Period.MINUTE).requests, sums(path, Period.HOUR).requests, sums(path, Period.DAY).requests) == (
        3,
        6,
        6,
    )
    kept.write([record(ended_s=0.0)])
    kept.prune()
    assert sums(path, Period.MINUTE).requests == 3
    kept.close()


def test_tenants_without_number_share_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound of a period; the sum is still that of all, and known tenants keep their rows."""
    monkeypatch.setattr(store, "MAX_GROUPS", 3)
    path = tmp_path / "usage.db"
    with closing(UsageStore(path)) as kept:
        kept.write([record("a"), record("b"), record("c")])
        kept.write([record(f"t{number}", key=f"k{number}") for number in range(50)] + [record("a")])
        found = {row.group[0]: row.figures.requests for row in kept.read(read_query({}, NOW_S + 1), 100)}
    assert found == {"a": 2, "b": 1, "c": 1, OTHER: 50}
    assert [sums(path, period).requests for period in Period] == [54] * 3


def test_names_that_are_no_texts_are_written_as_far_as_they_can_be(tmp_path: Path) -> None:
    """A client chooses the name of an adapter; none costs the other requests of its batch their record."""
    with opened(tmp_path / "usage.db") as usage:
        for name in ("\ud800", "a" * 10_000, "a\0b", "é", "\n"):
            usage.add(record(adapter=name))
        assert usage.flush(10)
        assert usage.lost == 0
        found = {row.group[0] for row in usage.store.read(read_query({"by": "adapter"}, NOW_S + 1), 10)}
    assert found == {"?", "a" * 200, "a\0b", "é", "\n"}


BAD: dict[str, Any] = {"no number": float("nan"), "too large": 2**70, "of another kind": ["a secret"]}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("places", [(0,), (37,), (3, 4, 99)])
def test_a_record_that_cannot_be_written_is_lost_alone(
    kind: str, places: tuple[int, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All others of its batch are written once, whatever their place; one line, without anything of it; counted."""
    path = tmp_path / "usage.db"
    with opened(path, every_s=0.2) as usage, caplog.at_level(logging.WARNING):
        for number in range(100):
            bad = {"queue_s": BAD[kind]} if number in places else {}
            usage.add(record(f"t{number}", **bad))
        assert usage.flush(10)
        usage.add(record("later"))
        assert usage.flush(10)
        assert (usage.lost, usage.waiting) == (len(places), 0)
    assert requests(path).requests == 101 - len(places)
    assert [sums(path, period).requests for period in Period] == [101 - len(places)] * 3
    (line,) = caplog.records
    assert "lost, and counted" in line.getMessage()
    assert "secret" not in caplog.text


def test_a_database_that_fails_between_two_parts_gets_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written before stays written; the rest waits."""
    monkeypatch.setattr(usage_log, "_AGAIN_S", 0.01)
    path, failures = tmp_path / "usage.db", iter([True])
    write = UsageStore.write

    def failing(kept: UsageStore, records: list[UsageRecord]) -> None:
        if len(records) < 10 and next(failures, False):
            raise sqlite3.OperationalError("disk I/O error")
        write(kept, records)

    monkeypatch.setattr(UsageStore, "write", failing)
    with opened(path, every_s=0.2) as usage:
        for number in range(20):
            usage.add(record(tokens=2**70 if number == 15 else 1))
        assert usage.flush(10)
    assert (requests(path).requests, usage.lost) == (19, 1)


def test_an_answer_has_the_sums_that_were_asked_for(tmp_path: Path) -> None:
    """By group and by period, of a tenant, with what is not written yet."""
    with opened(tmp_path / "usage.db") as usage:
        for number in range(10):
            usage.add(record("ab"[number % 2], NOW_S + 60 * number, class_name="xyz"[number % 3]))
        usage.add(record("a", outcome="rejected_full", reason="queue_full", tokens=0))
        reader = UsageReader(usage)

        def rows(**asked: str) -> list[tuple[str | None, tuple[str, ...], int, int]]:
            found = reader.read(read_query(asked, NOW_S + 3600))
            return [(row.start, tuple(row.group.values()), row.requests, row.refused) for row in found.rows]

        assert rows() == [(None, ("a",), 6, 1), (None, ("b",), 5, 0)]
        assert rows(by="reason") == [(None, ("",), 10, 0), (None, ("queue_full",), 1, 1)]
        assert rows(tenant="b", by="") == [(None, (), 5, 0)]
        assert sum(row[2] for row in rows(every="minute", by="class")) == 11
        assert len(rows(every="minute", by="")) == 10
        whole = reader.read(read_query({"since": "2h"}, NOW_S + 3600))
        assert (whole.total.requests, whole.total.prompt_tokens, whole.total.seat_s) == (11, 100, 5.5)
        assert (whole.waiting, whole.lost, whole.currency) == (0, 0, None)
