"""The audit log as rows and CSV."""

from __future__ import annotations

import csv
import io

import pytest

from headway.api.schema import AuditEntry
from headway_dashboard.analysis.changes.audit_rows import (
    Shown,
    audit_csv,
    audit_rows,
    chosen,
    clock,
    revisions,
    zone_of,
)


def entry(**given: object) -> AuditEntry:
    """A switch."""
    known: dict[str, object] = {
        "time": "2026-01-01T12:00:00.000Z", "actor": "anna", "role": "operator", "address": "127.0.0.1",
        "action": "switch_preset", "before": "balanced", "after": "latency", "revision": 2, "reason": "rush hour",
        "result": "applied",
    }  # fmt: skip
    return AuditEntry.model_validate(known | given)


ENTRIES = [entry(), entry(result="refused: revision 2 runs now", actor="ben", times=3), entry(action="recycle_engine")]


@pytest.mark.parametrize(
    ("shown", "search", "places"),
    [
        ("all", "", [0, 1, 2]),
        ("changes", "", [0, 2]),
        ("refused", "", [1]),
        ("all", "BEN", [1]),
        ("all", "switch preset anna", [0]),
        ("all", "recycle_engine", [2]),
        ("refused", "anna", []),
    ],
)
def test_what_is_shown(shown: Shown, search: str, places: list[int]) -> None:
    """A kind, and every word of the search in any column."""
    assert chosen(ENTRIES, shown, search) == [ENTRIES[place] for place in places]


@pytest.mark.parametrize(
    ("offset_min", "heading", "time"),
    [
        (None, "When (UTC)", "2026-01-01 12:00:00"),
        (0, "When (UTC)", "2026-01-01 12:00:00"),
        (-330, "When (UTC+05:30)", "2026-01-01 17:30:00"),
        (480, "When (UTC-08:00)", "2026-01-01 04:00:00"),
    ],
)
def test_the_clock_is_that_of_the_browser(offset_min: int | None, heading: str, time: str) -> None:
    """As the charts are; the heading says which."""
    assert audit_rows(ENTRIES, zone_of(offset_min))[0][heading] == time


def test_an_unreadable_time_is_shown_as_it_is() -> None:
    """A newer server may write it in another way."""
    assert clock("yesterday", zone_of(None)) == "yesterday"


def test_repeated_attempts_are_counted() -> None:
    """In the result."""
    assert audit_rows(ENTRIES, zone_of(None))[1]["Result"].endswith("(3 times)")


def test_the_download_has_every_field_and_no_formula() -> None:
    """A reason that a spreadsheet would compute is text there."""
    rows = list(csv.DictReader(io.StringIO(audit_csv([entry(reason="=1+1", actor='a "b", c')]))))
    assert rows[0]["reason"] == "'=1+1"
    assert rows[0]["actor"] == 'a "b", c'
    assert rows[0]["time"] == "2026-01-01T12:00:00.000Z"


def test_revisions_are_those_that_were_in_force_before() -> None:
    """The newest first; refused attempts and the present revision are none."""
    log = [entry(revision=4), entry(revision=3, after="throughput"), *ENTRIES]
    assert revisions(log, 4) == {3: "throughput", 2: "latency"}
    held = entry(revision=3, action="order_limit", after="small: 9 seats, until the next switch")
    assert revisions([held], 4) == {3: "small, with its own limit"}
