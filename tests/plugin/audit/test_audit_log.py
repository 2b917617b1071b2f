"""The audit in memory: each kind of entry has places of its own, and can be asked for."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headway.api.schema import AuditKind
from headway.audit import MAX_CHANGES, MAX_NO_OPS, MAX_REFUSED, MAX_STRANGERS, Audit, AuditFile, Caller

ANNA = Caller("anna", "operator", "10.0.0.1", "0a1b2c3d")


def change(audit: Audit, after: str, result: str = "applied") -> None:
    """A switch."""
    audit.record(ANNA, "switch_preset", before="balanced", after=after, revision=2, reason="", result=result)


def no_op(audit: Audit, reason: str = "") -> None:
    """An order that changed nothing."""
    audit.no_op(ANNA, "PUT /headway/v1/preset", "nothing changed", preset="balanced", revision=1, reason=reason)


def refused(audit: Audit, action: str, caller: Caller = ANNA) -> None:
    """An attempt that was refused before it was read."""
    audit.refuse(caller, action, "no", preset="balanced", revision=1)


def test_each_kind_can_be_asked_for() -> None:
    """Without a kind there is everything but the commands that changed nothing, the newest first."""
    audit = Audit()
    change(audit, "latency")
    change(audit, "nonsense", "refused: there is no such preset")
    refused(audit, "PUT /headway/v1/preset")
    refused(audit, "GET /headway/v1/status", Caller())
    no_op(audit)
    assert [entry.after for entry in audit.entries(9, AuditKind.CHANGE)] == ["latency"]
    assert [one.action for one in audit.entries(9, AuditKind.REFUSED)] == ["PUT /headway/v1/preset", "switch_preset"]
    assert [entry.action for entry in audit.entries(9, AuditKind.READ)] == ["GET /headway/v1/status"]
    assert [entry.result for entry in audit.entries(9, AuditKind.NOOP)] == ["nothing changed"]
    assert [entry.action for entry in audit.entries(9)] == [
        "GET /headway/v1/status", "PUT /headway/v1/preset", "switch_preset", "switch_preset",
    ]  # fmt: skip
    assert audit.recorded == 2


@given(st.lists(st.sampled_from(["refused order", "order", "read", "stranger", "no-op"]), min_size=1, max_size=30))
def test_nothing_but_changes_pushes_a_change_out(kinds: list[str]) -> None:
    """However often each comes, and whether it differs from the one before or not."""
    audit = Audit()
    change(audit, "the first")
    for round_number in range(40):
        for kind in kinds:
            match kind:
                case "refused order":
                    change(audit, f"p{round_number}", "refused: stale")
                case "order":
                    refused(audit, f"PUT /{round_number}")
                case "read":
                    refused(audit, f"GET /{round_number}")
                case "stranger":
                    refused(audit, "GET /", Caller(address=f"10.0.0.{round_number}"))
                case _:
                    no_op(audit, f"r{round_number}")
    assert [entry.after for entry in audit.entries(MAX_CHANGES, AuditKind.CHANGE)] == ["the first"]
    assert audit.entries(10_000)[-1].after == "the first"


def test_every_kind_has_a_bound() -> None:
    """The oldest of its kind gives way."""
    audit = Audit()
    for number in range(3 * MAX_CHANGES):
        change(audit, str(number))
        change(audit, str(number), "refused: stale")
        no_op(audit, str(number))
        refused(audit, f"GET /{number}")
        refused(audit, f"GET /{number}", Caller())
    assert len(audit.entries(10_000, AuditKind.CHANGE)) == MAX_CHANGES
    assert len(audit.entries(10_000, AuditKind.REFUSED)) == MAX_REFUSED
    assert len(audit.entries(10_000, AuditKind.READ)) == MAX_REFUSED + MAX_STRANGERS
    assert len(audit.entries(10_000, AuditKind.NOOP)) == MAX_NO_OPS


def test_five_hundred_orders_for_what_is_in_force_are_one_counted_entry() -> None:
    """The entry has the time of the last one."""
    audit = Audit()
    change(audit, "latency")
    for _ in range(500):
        no_op(audit)
    (counted,) = audit.entries(500, AuditKind.NOOP)
    assert counted.times == 500
    assert [entry.after for entry in audit.entries(500)] == ["latency"]


def test_one_subscriber_is_one_stranger() -> None:
    """Whatever address of its /64 it comes from; the newest is shown. Another network is another one."""
    audit = Audit()
    for number in range(1, 201):
        refused(audit, "GET /headway/v1/status", Caller(address=f"2001:db8::{number:x}"))
    refused(audit, "GET /headway/v1/status", Caller(address="2001:db8:0:1::1"))
    found = [(entry.address, entry.times) for entry in audit.entries(500)]
    assert found == [("2001:db8:0:1::1", 1), ("2001:db8::c8", 200)]


def test_strangers_rotate_no_change_out_of_the_file(tmp_path: Path) -> None:
    """A hundred thousand attempts, each of another path, in a file of their own."""
    audit, path = Audit(), tmp_path / "audit.jsonl"
    file = AuditFile(path, max_bytes=64 * 1024, kept=1)
    audit.write_to(file)
    change(audit, "latency")
    for number in range(3000):
        refused(audit, f"GET /{number}", Caller(address="10.0.0.9"))
        if number % 500 == 0:
            assert audit._strangers_file is not None
            audit._strangers_file._lines.join()
    audit.write_to(None)
    file.close()
    assert [json.loads(line)["after"] for line in path.read_text().splitlines()] == ["latency"]


def test_the_file_has_every_change_and_repetitions_when_their_count_has_doubled(tmp_path: Path) -> None:
    """One JSON object a line, with the kind and the id of the token."""
    audit, path = Audit(), tmp_path / "audit.jsonl"
    file = AuditFile(path)
    change(audit, "before there is a file")
    audit.write_to(file)
    for number in range(3):
        change(audit, f"preset {number}\n")
    for _ in range(100):
        refused(audit, "GET /headway/v1/status", Caller(address="10.0.0.9", token_id="ffffffff"))
    no_op(audit, "again")
    audit.write_to(None)
    change(audit, "after it")
    file.close()
    strangers = tmp_path / "audit.strangers.jsonl"
    lines, others = ([json.loads(line) for line in one.read_text("ascii").splitlines()] for one in (path, strangers))
    changed = [line["after"] for line in lines if line["kind"] == "change"]
    assert changed == [rf"preset {number}\n" for number in range(3)]
    assert [(line["kind"], line["times"]) for line in others] == [("read", one) for one in (1, 2, 4, 8, 16, 32, 64)]
    assert lines[0].keys() == {
        "time", "kind", "actor", "role", "token", "address", "action", "before", "after", "revision", "reason",
        "result", "times",
    }  # fmt: skip
    assert (lines[0]["actor"], lines[0]["token"], lines[0]["address"]) == ("anna", "0a1b2c3d", "10.0.0.1")
    assert (lines[-1]["kind"], lines[-1]["reason"], lines[-1]["result"]) == ("noop", "again", "nothing changed")
