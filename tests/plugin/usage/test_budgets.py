"""The budgets of a server with a real database: what is counted, what a restart leaves, and what two servers share."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.usage import TenantBudgets, UsageLog, UsageStore, refusal_of, store
from headway_policies.budgets import Action, Bound, Budget, Calendar, Finding, Owned, Span, Unit
from headway_policies.entitlement import Entitlement
from headway_policies.usage import Figures, Group, Period, UsageQuery, UsageRecord

TOKENS = Bound(Unit.TOKENS, Span.MONTH)
REQUESTS = Bound(Unit.REQUESTS, Span.DAY)


def tenant(name: str = "a", limit: float = 100.0, organisation: Owned | None = None, **more: object) -> Entitlement:
    """A tenant with a bound of tokens a month."""
    own = Owned(name, Budget({TOKENS: limit}, **more))  # type: ignore[arg-type]
    return Entitlement(name, budgets=(own,) if organisation is None else (own, organisation))


class Server:
    """A server's accounting and budgets; ``stop`` as a process that exits does."""

    def __init__(self, path: Path, *tenants: Entitlement) -> None:
        self.usage = UsageLog(UsageStore(path), every_s=0.01)
        self.usage.store.check()
        self.budgets = self.usage.budgets = TenantBudgets(self.usage, lambda: tenants)
        self.refresh()

    def refresh(self) -> None:
        """Read what others use."""
        asyncio.run(self.budgets.refresh())

    def run(self, of: Entitlement, tokens: int, *, reason: str = "") -> bool:
        """A request from its begin to its record."""
        if refusal_of(self.budgets.judge(of, tokens)) is not None:
            return False
        hold = self.budgets.hold(of, tokens)
        outcome = "rejected_full" if reason == "queue_full" else "expired_running" if reason else "completed"
        group = Group(of.tenant, "k", "normal", "m", "", outcome, reason)
        self.usage.add(UsageRecord(time.time(), group, Figures(1, int(reason != ""), tokens, seat_s=0.5)))
        self.budgets.release(hold)
        return True

    def used(self, of: str = "tenant a") -> float:
        """The tokens that are used by what this server knows."""
        return next(state.used for owner, state in self.budgets.states() if owner.label == of)

    def stop(self) -> None:
        """Write what waits."""
        self.usage.close()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=15))
def test_a_budget_holds_over_restarts(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bool]]) -> None:
    """To the token: the figure after a start is that before the stop."""
    path, acme = tmp_path_factory.mktemp("budget") / "usage.db", tenant()
    server, used = Server(path, acme), 0
    try:
        for tokens, restarts in steps:
            if restarts:
                server.stop()
                server = Server(path, acme)
            assert server.used() == used
            if server.run(acme, tokens):
                used += tokens
            else:
                assert used + tokens > 100
            server.refresh()  # changes nothing where no other server writes
            assert server.used() == used <= 100
    finally:
        server.stop()


def test_two_servers_of_one_database_share_a_budget(tmp_path: Path) -> None:
    """Each learns within seconds what the other has used."""
    acme = tenant()
    one, two = Server(tmp_path / "usage.db", acme), Server(tmp_path / "usage.db", acme)
    try:
        assert one.run(acme, 60)
        assert two.run(acme, 30)
        for server in (one, two, one):
            server.refresh()
        assert (one.used(), two.used()) == (90, 90)
        assert not one.run(acme, 20)
        assert two.run(acme, 10)
    finally:
        one.stop()
        two.stop()


@pytest.mark.parametrize("days", [31, -31])
def test_a_clock_that_is_set_right_finds_what_was_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """A server that starts with a wrong one counts there, and in the right month what the accounting has of it."""
    a, right, days_s = tenant(), time.time, days * 86_400
    server = Server(tmp_path / "usage.db", a)
    assert server.run(a, 70)
    server.stop()
    monkeypatch.setattr(time, "time", lambda: right() + days_s)
    server = Server(tmp_path / "usage.db", a)
    try:
        assert (server.used(), server.run(a, 100), server.run(a, 1)) == (0, True, False)
        monkeypatch.setattr(time, "time", right)
        server.refresh()
        assert server.used() == 70
        assert (server.run(a, 31), server.run(a, 30), server.run(a, 1)) == (False, True, False)
        server.refresh()
        assert server.used() == 100
    finally:
        server.stop()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "Asia/Kathmandu", "America/St_Johns"])
def test_the_first_minutes_of_a_month_are_found_in_every_time_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    """Where it begins within an hour of UTC as well."""
    now = [datetime(2026, 10, 1, 0, 10, tzinfo=ZoneInfo(zone)).timestamp()]
    monkeypatch.setattr(time, "time", lambda: now[0])
    a = tenant(calendar=Calendar(ZoneInfo(zone)))
    server = Server(tmp_path / "usage.db", a)
    assert server.run(a, 100)
    server.stop()
    now[0] += 5 * 3600
    server = Server(tmp_path / "usage.db", a)
    try:
        assert (server.used(), server.run(a, 1)) == (100, False)
    finally:
        server.stop()


@pytest.mark.parametrize(("before_min", "month", "day"), [(10, 100, 0), (20, 0, 0)], ids=["in its hour", "before it"])
def test_a_month_that_begins_within_an_hour_of_utc_counts_that_hour_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_min: int, month: int, day: int
) -> None:
    """In Kathmandu at 18:15: minutes are not kept for a month. A day counts from its first minute."""
    zone = ZoneInfo("Asia/Kathmandu")
    now = [datetime(2026, 10, 1, tzinfo=zone).timestamp() - before_min * 60]
    monkeypatch.setattr(time, "time", lambda: now[0])
    limits = {TOKENS: 1000.0, Bound(Unit.TOKENS, Span.DAY): 1000.0}
    a = Entitlement("a", budgets=(Owned("a", Budget(limits, calendar=Calendar(zone))),))
    server = Server(tmp_path / "usage.db", a)
    assert server.run(a, 100)
    server.stop()
    now[0] += 3600
    server = Server(tmp_path / "usage.db", a)
    try:
        assert {state.bound: state.used for _, state in server.budgets.states()} == {
            "tokens_per_month": month, "tokens_per_day": day,
        }  # fmt: skip
    finally:
        server.stop()


@pytest.mark.parametrize("span", [Span.DAY, Span.MONTH])
def test_the_rows_of_many_groups_are_not_needed_for_a_long_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, span: Span
) -> None:
    """Minutes and hours of many groups are kept for a shorter time than the period lasts."""
    now = [datetime(2026, 10, 5, 12, 30, tzinfo=UTC).timestamp()]
    monkeypatch.setattr(time, "time", lambda: now[0])
    a = Entitlement("a", budgets=(Owned("a", Budget({Bound(Unit.TOKENS, span): 100.0})),))
    server = Server(tmp_path / "usage.db", a)
    assert server.run(a, 100)
    server.stop()
    finest = Period.MINUTE if span is Span.DAY else Period.HOUR
    with sqlite3.connect(tmp_path / "usage.db") as connection:
        connection.execute("DELETE FROM usage WHERE period <= ?", (finest,))
    now[0] += 5 * 3600
    server = Server(tmp_path / "usage.db", a)
    try:
        assert server.used() == 100
    finally:
        server.stop()


def test_a_budget_holds_over_a_restart_beside_tenants_without_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The periods of the accounting have no more rows when the tenant comes."""
    monkeypatch.setattr(store, "MAX_GROUPS", 3)
    a = tenant()
    server = Server(tmp_path / "usage.db", a)
    for number in range(9):
        server.run(Entitlement(f"t{number}"), 5)
    assert [server.run(a, 50), server.run(a, 50), server.run(a, 50)] == [True, True, False]
    server.stop()
    server = Server(tmp_path / "usage.db", a)
    try:
        assert (server.used(), server.run(a, 1)) == (100, False)
    finally:
        server.stop()


@pytest.mark.slow
def test_a_budget_counts_all_rows_of_a_database(tmp_path: Path) -> None:
    """Those of more groups than a report may have, too: of a client with an adapter for each request, say."""
    a, count = tenant(limit=1e9), 201_000
    server = Server(tmp_path / "usage.db", a)
    server.run(a, 1)
    server.stop()
    with sqlite3.connect(tmp_path / "usage.db") as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(usage)")]
        given = ", ".join("'x' || n" if name == "adapter" else name for name in columns)
        numbers = f"WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < {count - 1})"
        where = f"period = {Period.DAY.value}"
        connection.execute(f"{numbers} INSERT INTO usage SELECT {given} FROM usage, i WHERE {where}")
    server = Server(tmp_path / "usage.db", a)
    try:
        assert server.used() == count
    finally:
        server.stop()


def test_a_period_that_cannot_be_read_keeps_no_other_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day of many rows may take too long."""
    limits = {Bound(Unit.TOKENS, Span.HOUR): 100.0, Bound(Unit.TOKENS, Span.DAY): 100.0}
    a = Entitlement("a", budgets=(Owned("a", Budget(limits)),))
    server = Server(tmp_path / "usage.db", a)
    assert server.run(a, 60)
    server.stop()
    sums = UsageStore.sums

    def slow(store: UsageStore, query: UsageQuery) -> Iterator[tuple[tuple[str, ...], Figures]]:
        if query.period is Period.HOUR:
            raise sqlite3.OperationalError("interrupted")
        return sums(store, query)

    monkeypatch.setattr(UsageStore, "sums", slow)
    server = Server(tmp_path / "usage.db", a)
    try:
        assert {state.bound: state.used for _, state in server.budgets.states()} == {
            "tokens_per_hour": 60.0, "tokens_per_day": 0.0,
        }  # fmt: skip
    finally:
        server.stop()


def test_an_organisation_has_the_sums_of_its_tenants(tmp_path: Path) -> None:
    """Also of those that have sent nothing since the start."""
    members = {name: Budget({TOKENS: 100.0}) for name in "ab"}
    acme = Owned("acme", Budget({TOKENS: 120.0}), members)
    a, b = tenant("a", organisation=acme), tenant("b", organisation=acme)
    first = Server(tmp_path / "usage.db", a, b)
    assert first.run(a, 90)
    first.stop()
    second = Server(tmp_path / "usage.db", a, b)
    try:
        assert second.used("organisation acme") == 90
        assert not second.run(b, 40)
        assert second.run(b, 30)
        assert second.used("organisation acme") == 120
    finally:
        second.stop()


def test_a_refused_request_uses_nothing(tmp_path: Path) -> None:
    """It is in the accounting, and in no budget."""
    a = Entitlement("a", budgets=(Owned("a", Budget({REQUESTS: 1.0})),))
    server = Server(tmp_path / "usage.db", a)
    try:
        assert server.run(a, 0, reason="queue_full")
        server.refresh()
        assert server.run(a, 5)
        assert not server.run(a, 5)
        assert dict(server.budgets.findings) == {("requests_per_day", "refuse"): 1}
    finally:
        server.stop()


def test_a_request_that_ran_counts_however_it_ended(tmp_path: Path) -> None:
    """One whose own time-out ended it has had its tokens; also after a restart."""
    a = Entitlement("a", budgets=(Owned("a", Budget({REQUESTS: 2.0})),))
    server = Server(tmp_path / "usage.db", a)
    assert server.run(a, 5, reason="total_timeout")
    assert server.used() == 1
    server.stop()
    server = Server(tmp_path / "usage.db", a)
    try:
        assert server.used() == 1
        assert server.run(a, 5)
        assert not server.run(a, 5)
    finally:
        server.stop()


def test_what_binds_nobody_is_in_no_header(tmp_path: Path) -> None:
    """A budget that only counts, and one beyond which an organisation lends: clients would wait for nothing."""
    members = {"b": Budget({TOKENS: 10.0}, borrows=True)}
    acme = Owned("acme", Budget({TOKENS: 50.0}), members)
    server = Server(tmp_path / "usage.db")
    try:
        assert server.budgets.states_of(tenant(counts_only=True)) == []
        lent = server.budgets.states_of(Entitlement("b", budgets=(Owned("b", members["b"]), acme)))
        assert [state.limit for state in lent] == [50.0]
    finally:
        server.stop()


def test_what_only_counts_refuses_nothing(tmp_path: Path) -> None:
    """It is counted under a name of its own."""
    a = tenant(limit=10.0, counts_only=True, soft_ratio=0.5)
    server = Server(tmp_path / "usage.db", a)
    try:
        assert [server.run(a, 6) for _ in range(3)] == [True, True, True]
        assert dict(server.budgets.findings) == {
            ("tokens_per_month", "would_lower"): 1,
            ("tokens_per_month", "would_refuse"): 2,
        }
    finally:
        server.stop()


def test_other_work_runs_while_the_budgets_of_many_tenants_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a turn of the event loop, no more than so many owners are looked at."""
    tenants = [tenant(str(number)) for number in range(25)]
    server = Server(tmp_path / "usage.db", *tenants)
    monkeypatch.setattr("headway.usage.budgets._OWNERS_A_TURN", 4)
    looked_at: list[int] = []
    whole = server.budgets._book.knows

    def knows(owner: Owned) -> bool:
        looked_at[-1] += 1
        return whole(owner)

    monkeypatch.setattr(server.budgets._book, "knows", knows)

    async def refresh() -> None:
        async def turns() -> None:
            while True:
                looked_at.append(0)
                await asyncio.sleep(0)

        beside = asyncio.create_task(turns())
        await asyncio.sleep(0)
        await server.budgets.refresh()
        beside.cancel()

    try:
        asyncio.run(refresh())
        assert sum(looked_at) >= 50
        assert max(looked_at) <= 4
    finally:
        server.stop()


def test_a_database_that_cannot_be_read_leaves_the_figures(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line is logged."""
    a = tenant()
    server = Server(tmp_path / "usage.db", a)
    try:
        assert server.run(a, 60)

        def failing(*given: object) -> None:
            raise OSError("no disk")

        monkeypatch.setattr(server.usage.store, "sums", failing)
        for _ in range(2):
            server.refresh()
        assert server.used() == 60
        assert [one.getMessage() for one in caplog.records if "no disk" in one.getMessage()] == [
            "budgets: the use of other servers, and of this one before its start, cannot be read: month: no disk; "
            "the earlier figures stay"
        ]
    finally:
        server.stop()


def test_the_refusal_that_lasts_the_longest_is_told() -> None:
    """One that never ends before all others; what is only lowered is none."""
    found = [
        Finding(Action.LOWER, "tenant a", "tokens_per_day", 10, 9.0, counts_only=False),
        Finding(Action.REFUSE, "tenant a", "tokens_per_hour", 10, 5.0, counts_only=False),
        Finding(Action.REFUSE, "tenant a", "tokens_per_day", 10, 7.0, counts_only=False),
    ]
    told = refusal_of(found)
    assert told is not None
    assert told.bound == "tokens_per_day"
    assert refusal_of(found[:1]) is None
    never = found[1]._replace(retry_after_s=None)
    assert refusal_of([*found, never]) is never
