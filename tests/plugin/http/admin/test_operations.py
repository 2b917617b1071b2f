"""The routes of the orders beside a preset: who may order, what is answered, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from admin_api import OPERATOR, VIEWER, bearer, client_of
from engines import TrippingEngine, installed
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.api.schema import AuditKind
from headway.http.admin.commands import MAX_BODY_BYTES
from headway.operator import Control
from headway.operator.commands.warmup import WarmBesideTraffic
from headway_policies import AdmissionState

ORDERS = ("pause", "resume", "drain", "warmup")
JSON = {"Content-Type": "application/json"}


async def _at_once(batch_size: int) -> str:
    return ""


@asynccontextmanager
async def serving(warm: WarmBesideTraffic | None = _at_once) -> AsyncIterator[tuple[httpx.AsyncClient, Control]]:
    """A client of the admin API of an idle engine of two seats."""
    control, _ = installed(TrippingEngine(), small_preset(2), warm_beside_traffic=warm)
    async with client_of(control) as client:
        yield client, control


async def post(client: httpx.AsyncClient, order: str, token: str = OPERATOR, **options: Any) -> httpx.Response:
    """Send an order."""
    headers = {**bearer(token), **options.pop("headers", {})}
    return await client.post(f"/headway/v1/{order}", headers=headers, **({"json": {}} | options))


@on_virtual_time
async def test_a_pause_is_seen_everywhere_until_the_resume() -> None:
    """In the answer, the status, readiness and the audit, with the actor and the reason of the order."""
    async with serving() as (client, control):
        paused = await post(client, "pause", json={"reason": "disk", "actor": "bob"})
        expected = {"state": "paused", "holds": ["operator"], "running": 0, "waiting": 0, "dispatched": 0, "refused": 0}
        assert (paused.status_code, paused.json()) == (200, expected)
        ready = await client.get("/headway/readyz")
        assert (ready.status_code, ready.json()["reasons"]) == (503, ["paused by an operator"])
        status = (await client.get("/headway/v1/status", headers={"Authorization": f"Bearer {VIEWER}"})).json()
        assert (status["state"], status["stopped"]["actor"], status["stopped"]["reason"]) == ("paused", "bob", "disk")
        line = control.audit.entries(1)[0]
        assert (line.action, line.actor, line.role, line.reason) == ("pause_admission", "bob", "operator", "disk")
        resumed = await post(client, "resume")
        assert (resumed.status_code, resumed.json()["state"]) == (200, "open")
        assert (await client.get("/headway/readyz")).status_code == 200


@on_virtual_time
async def test_a_drain_and_a_warm_up_go_on_in_the_background() -> None:
    """202; the warm-up says how large its batches are."""
    async with serving() as (client, _):
        warmed = await post(client, "warmup")
        assert (warmed.status_code, warmed.json()) == (
            202, {"accepted": True, "batch_size": 2, "running": 0, "waiting": 0},
        )  # fmt: skip
        drained = await post(client, "drain")
        assert (drained.status_code, drained.json()["state"]) == (202, "draining")


@on_virtual_time
async def test_a_pause_may_have_an_end_and_is_renewed() -> None:
    """A renewal has changed nothing that the audit lists; it is among the commands that changed nothing."""
    async with serving() as (client, control):
        for _ in range(3):
            paused = await post(client, "pause", json={"expires_s": 30, "actor": "bob"})
            assert (paused.status_code, paused.json()["state"]) == (200, "paused")
            await asyncio.sleep(20.0)
        assert control.status().stopped.left_s == 10.0
        assert [one.action for one in control.audit.entries(9)] == ["pause_admission"]
        (renewals,) = control.audit.entries(9, AuditKind.NOOP)
        assert (renewals.action, renewals.actor, renewals.times) == ("POST /headway/v1/pause", "bob", 2)
        await asyncio.sleep(11.0)
        assert control.gateway.gate.desk.mode.state is AdmissionState.OPEN


@pytest.mark.parametrize("expires_s", [0, -1, 86_401, "30", True, None])
def test_the_end_of_a_pause_is_a_number_of_seconds_up_to_a_day(expires_s: object) -> None:
    """null: it has none, as where it is left out."""

    @on_virtual_time
    async def run() -> None:
        async with serving() as (client, control):
            answer = await post(client, "pause", json={"expires_s": expires_s})
            paused = control.gateway.gate.desk.mode.state is AdmissionState.PAUSED
            assert (answer.status_code, paused) == ((200, True) if expires_s is None else (422, False))

    run()


@pytest.mark.parametrize("order", ["pause", "drain"])
def test_the_same_order_again_is_a_conflict_with_what_to_do(order: str) -> None:
    """409, one sentence that names the resume."""

    @on_virtual_time
    async def run() -> None:
        async with serving() as (client, control):
            await post(client, order)
            again = await post(client, order)
            assert (again.status_code, again.headers["content-type"]) == (409, "application/problem+json")
            assert again.json()["detail"].endswith(f"already: resume ends the {order}.")
            assert control.audit.entries(1)[0].result.startswith("refused: ")

    run()


@on_virtual_time
async def test_a_resume_of_an_open_server_is_a_conflict() -> None:
    """Nothing is there to be ended."""
    async with serving() as (client, _):
        refused = await post(client, "resume")
        assert (refused.status_code, refused.json()["detail"]) == (409, "no command blocks dispatch.")


@on_virtual_time
async def test_a_server_that_cannot_warm_up_says_501() -> None:
    """The server has nothing that makes the requests."""
    async with serving(None) as (client, _):
        refused = await post(client, "warmup")
        assert (refused.status_code, "nothing says which requests" in refused.json()["detail"]) == (501, True)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"token": VIEWER}, 403),
        ({"token": "x" * 40}, 401),
        ({"json": {"seats": 3}}, 422),
        ({"json": {"reason": "x" * 401}}, 422),
        ({"json": {"actor": 7}}, 422),
        ({"json": []}, 422),
        ({"json": None, "content": b"{", "headers": JSON}, 422),
        ({"json": None, "content": b"[" * 15_000, "headers": JSON}, 422),
        ({"json": None, "content": b" " * (MAX_BODY_BYTES + 1), "headers": JSON}, 413),
        ({"json": None, "content": b"reason=now", "headers": {"Content-Type": "text/plain"}}, 415),
    ],
    ids=[
        "viewer",
        "stranger",
        "unknown key",
        "long reason",
        "no name",
        "no object",
        "no JSON",
        "deep",
        "large",
        "form",
    ],
)
async def test_a_refused_order_changes_nothing_and_is_written_down(
    order: str, options: dict[str, Any], status: int
) -> None:
    """A problem with one sentence, and one line of the audit."""
    async with serving() as (client, control):
        answer = await post(client, order, **options)
        assert (answer.status_code, answer.json()["status"]) == (status, status)
        assert answer.json()["detail"]
        assert (control.gateway.gate.desk.mode.state, control.warmups.running) == (AdmissionState.OPEN, False)
        (line,) = control.audit.entries(9)
        assert (line.action, line.result.split(":")[0]) == (f"POST /headway/v1/{order}", "refused")


async def _silence(client: httpx.AsyncClient, token: str = OPERATOR, **body: object) -> httpx.Response:
    return await client.put("/headway/v1/silence", headers=bearer(token), json=body)


@on_virtual_time
async def test_an_alert_is_silent_until_its_silence_is_ended() -> None:
    """Each answer lists the silences, and so does the status; an end without a silence changes nothing."""
    async with serving() as (client, control):
        begun = await _silence(client, alert="HeadwayQueueLong", expires_s=600, reason="load test", actor="bob")
        (silence,) = begun.json()["silences"]
        assert (begun.status_code, silence["alert"], silence["actor"]) == (200, "HeadwayQueueLong", "bob")
        assert [found.alert for found in control.status().silences] == ["HeadwayQueueLong"]
        for _ in range(2):
            ended = await _silence(client, alert="HeadwayQueueLong", expires_s=None)
            assert (ended.status_code, ended.json()) == (200, {"silences": []})
        assert len(control.audit.entries(9, AuditKind.NOOP)) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"alert": "A"},
        {"alert": "A", "expires_s": 0},
        {"alert": "A", "expires_s": 604_801},
        {"alert": "", "expires_s": 60},
        {"alert": "a b", "expires_s": 60},
        {"alert": "A" * 81, "expires_s": 60},
    ],
)
def test_a_silence_has_a_name_and_a_time_of_at_most_a_week(body: dict[str, object]) -> None:
    """422, and nothing is silent; a viewer may silence nothing."""

    @on_virtual_time
    async def run() -> None:
        async with serving() as (client, control):
            assert (await _silence(client, **body)).status_code == 422
            assert (await _silence(client, VIEWER, alert="A", expires_s=60)).status_code == 403
            assert control.status().silences == []

    run()
