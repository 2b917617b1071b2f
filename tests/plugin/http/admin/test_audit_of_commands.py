"""What the audit keeps of orders and refused attempts, and what it keeps out."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from admin_api import OPERATOR, READS, VIEWER, admin_api, bearer, put

from headway.api.schema import AuditKind
from headway.audit import MAX_REFUSED, MAX_STRANGERS, NO_ROLE, Caller
from headway.engine.fake import FakeParams


async def test_an_order_for_what_is_ordered_already_fills_no_audit() -> None:
    """The first order of a rung is written down, the same one again is not; so it is with letting go."""
    async with admin_api() as (client, control):
        for rung in (None, "pause", "PAUSE", None, None):
            answer = await client.put("/headway/v1/fallback", headers=bearer(OPERATOR), json={"rung": rung})
            assert answer.status_code == 200
            assert answer.json()["ordered"] == (rung and rung.lower())
        written = [(line.before, line.after) for line in control.audit.entries(9)]
        assert written == [("pause", "normal"), ("normal", "pause")]
        repeated = control.audit.entries(9, AuditKind.NOOP)
        assert [(line.after, line.times) for line in repeated] == [("balanced", 3)]


@pytest.mark.parametrize("kind", [None, *AuditKind])
async def test_the_audit_is_listed_by_kind(kind: AuditKind | None) -> None:
    """A change, a refused order, a refused read and an order that changed nothing; those last only when asked for."""
    async with admin_api() as (client, _):
        await put(client)
        await put(client, headers={"If-Match": '"2"'})
        await put(client, headers={"If-Match": '"1"'})
        await client.get("/headway/v1/status")
        asked = {} if kind is None else {"kind": kind.value}
        listed = await client.get("/headway/v1/audit", headers=bearer(VIEWER), params=asked)
        results = {
            AuditKind.CHANGE: ["applied"],
            AuditKind.NOOP: ["nothing changed"],
            AuditKind.REFUSED: ["refused: the preset was switched meanwhile; its revision is now 2"],
            AuditKind.READ: ["refused: no token, or a wrong one"],
        }
        everything = [*results[AuditKind.READ], *results[AuditKind.REFUSED], *results[AuditKind.CHANGE]]
        expected = everything if kind is None else results[kind]
        assert [line["result"] for line in listed.json()["entries"]] == expected


async def test_an_unknown_kind_of_entries_is_a_422() -> None:
    """The kinds there are stand in it."""
    async with admin_api() as (client, _):
        answer = await client.get("/headway/v1/audit?kind=all", headers=bearer(VIEWER))
        assert (answer.status_code, answer.json()["detail"]) == (
            422, "kind: one of change, noop, refused, read is needed.",
        )  # fmt: skip


@pytest.mark.parametrize("limit", ["0", "501", "-1", "x", "1.5", "9" * 40])
async def test_a_bad_audit_limit_is_a_422(limit: str) -> None:
    """The bound is named."""
    async with admin_api() as (client, _):
        answer = await client.get(f"/headway/v1/audit?limit={limit}", headers=bearer(VIEWER))
        assert answer.status_code == 422
        assert "500" in answer.json()["detail"]


async def test_no_token_and_no_prompt_shows_anywhere(caplog: pytest.LogCaptureFixture) -> None:
    """Not in an answer, not in the log, not in the audit, whatever was tried."""
    caplog.set_level(logging.DEBUG)
    async with admin_api() as (client, control):
        engine: Any = control.gateway.link.engine
        stream = engine.generate("a secret prompt", FakeParams(50), "r")
        running = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        texts = [(await client.get(f"/headway/v1/{path}", headers=bearer(OPERATOR))).text for path in READS]
        texts += [(await client.get("/headway/v1/status", headers=bearer("wrong" * 9))).text]
        texts += [
            (await put(client, VIEWER)).text,
            (await put(client)).text,
            caplog.text,
            str(control.audit.entries(9)),
        ]
        await running
        await stream.aclose()
    assert "latency" in caplog.text
    for text in texts:
        for secret in (OPERATOR, VIEWER, "wrongwrong", "a secret prompt"):
            assert secret not in text


@pytest.mark.parametrize(
    ("token", "counts", "logged"),
    [(VIEWER, [600], 10), ("nobodys-token-0123456789-0123456789", [590, 10], 10 + 4)],
    ids=["viewer", "unknown"],
)
async def test_refused_attempts_push_nothing_out_of_the_audit(
    token: str, counts: list[int], logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Six hundred of them are counted by their cause, and few lines of the log; the change is still there."""
    async with admin_api() as (client, control):
        caplog.set_level(logging.INFO, "headway.audit")
        assert (await put(client, json={"name": "latency", "reason": "the change"})).status_code == 200
        for _ in range(600):
            await put(client, token)
        lines = control.audit.entries(500)
        assert [(line.reason, line.times) for line in lines] == [*(("", times) for times in counts), ("the change", 1)]
        assert len([record for record in caplog.records if record.name == "headway.audit"]) == 1 + logged


async def test_attempts_from_everywhere_push_nothing_out_either() -> None:
    """Different attempts are kept up to a bound, the newest of them."""
    async with admin_api() as (client, control):
        await put(client, json={"name": "latency", "reason": "the change"})
        for role in ("viewer", NO_ROLE):
            for number in range(1000):
                control.refused(Caller("a", role, f"10.0.0.{number}"), "GET /headway/v1/status", "no")
        lines = control.audit.entries(2000)
        assert len(lines) == 1 + MAX_REFUSED + MAX_STRANGERS
        assert {line.address for line in lines} >= {"10.0.0.999", "10.0.0.998"}
        assert lines[-1].reason == "the change"


async def test_what_a_client_wrote_is_kept_short_and_plain(caplog: pytest.LogCaptureFixture) -> None:
    """No key of a body, no address of a proxy's header and no reason fills the audit or breaks a line of the log."""
    caplog.set_level(logging.INFO, "headway.audit")
    async with admin_api() as (client, control):
        await put(client, json={"name": "latency", "k" * 15_000: 1})
        control.refused(Caller(address="1.2.3.4" * 9000), "GET /headway/v1/status", "no token")
        control.refused(Caller(address="\x9b2J\n"), "GET /headway/v1/status", "no token")
        await put(client, json={"name": "throughput", "reason": "\x1b[2J\nforged \u202e line"})
        lines = control.audit.entries(9)
        assert all(
            len(value) <= 500 for line in lines for value in line.model_dump().values() if isinstance(value, str)
        )
        assert [line.address for line in lines][1] == r"\x9b2J\n"
        assert lines[0].reason == r"\x1b[2J\nforged \u202e line"
        assert all(record.getMessage().isprintable() for record in caplog.records)
