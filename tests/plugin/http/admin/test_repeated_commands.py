"""An order that is sent again, because its answer was lost, is carried out once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from admin_api import admin_api, bearer, switch
from virtual_time import on_virtual_time

from headway.admission import EngineLink
from headway.api import routes
from headway.api.routes import Route
from headway.api.schema import AuditKind

#: Each order that the engine of these tests can carry out: its body, and the status of its repetition.
ORDERS: dict[Route, tuple[dict[str, Any], int]] = {
    routes.SWITCH: ({"name": "throughput"}, 412),
    routes.UNDO: ({}, 412),
    routes.ORDER_LIMIT: ({"seats": 3}, 412),
    routes.KEEP: ({}, 409),
    routes.ORDER_FALLBACK: ({"rung": "pause"}, 200),
    routes.PAUSE: ({}, 409),
    routes.DRAIN: ({}, 409),
    routes.RESUME: ({}, 409),
}


@pytest.mark.parametrize("route", ORDERS, ids=lambda route: route.name)
def test_the_same_order_again_is_refused_or_changes_nothing(route: Route) -> None:
    """Whatever the order was: nothing more is written down as a change."""
    body, repeated = ORDERS[route]

    @on_virtual_time
    async def run() -> None:
        async with admin_api() as (client, control):
            headers = {**bearer(), "If-Match": '"2"'}
            on_trial = {"name": "latency", "revert_after_s": 600}
            await client.put(routes.SWITCH.path, headers={**bearer(), "If-Match": '"1"'}, json=on_trial)
            if route is routes.RESUME:
                await client.post(routes.PAUSE.path, headers=bearer(), json={})
            before = control.audit.entries(99, AuditKind.CHANGE)
            first = await client.request(route.method, route.path, headers=headers, json=body)
            changed = control.audit.entries(99, AuditKind.CHANGE)
            assert first.is_success
            assert len(changed) > len(before)
            again = [await client.request(route.method, route.path, headers=headers, json=body) for _ in range(2)]
            assert [answer.status_code for answer in again] == [repeated] * 2
            assert control.audit.entries(99, AuditKind.CHANGE) == changed

    run()


@on_virtual_time
async def test_a_switch_that_is_sent_again_while_the_first_goes_on_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """The revision moves before the engine is told."""
    told, hears = asyncio.Event(), asyncio.Event()

    async def limit_engine(_: EngineLink) -> None:
        hears.set()
        await told.wait()

    monkeypatch.setattr(EngineLink, "limit_engine", limit_engine)
    async with admin_api() as (client, control):
        first = asyncio.create_task(switch(client, match='"1"'))
        await hears.wait()
        again = await switch(client, match='"1"')
        assert (again.status_code, again.headers["etag"]) == (412, '"2"')
        told.set()
        assert ((await first).status_code, control.revision) == (200, 2)
