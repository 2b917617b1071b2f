"""A server that wants a reason and a name with every command."""

from __future__ import annotations

from typing import Any

import pytest
from admin_api import PRESET, admin_api, bearer

from headway.api.routes import TABLE

SAID = {"reason": "rush hour", "actor": "anna"}


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ({}, ["reason", "actor"]),
        ({"reason": "rush hour"}, ["actor"]),
        ({"actor": "anna"}, ["reason"]),
        ({"reason": "  ", "actor": ""}, ["reason", "actor"]),
        (SAID, []),
    ],
    ids=str,
)
async def test_an_order_names_what_is_missing(said: dict[str, str], missing: list[str]) -> None:
    """422 with each field, and nothing has changed."""
    async with admin_api(require_reason=True) as (client, control):
        body: dict[str, Any] = {"name": "latency", **said}
        answer = await client.put(PRESET, headers={**bearer(), "If-Match": "*"}, json=body)
        if not missing:
            assert answer.status_code == 200
            return
        assert (answer.status_code, control.revision) == (422, 1)
        assert [one["where"] for one in answer.json()["errors"]] == missing
        assert control.audit.entries(1)[0].result.startswith(f"refused: {missing[0]}")


@pytest.mark.parametrize("route", [route for route in TABLE if route.changes], ids=lambda route: route.name)
async def test_every_order_is_asked_for_them(route: Any) -> None:
    """Each one that changes something, before anything else about it is looked at."""
    bodies: dict[str, dict[str, Any]] = {
        "switch": {"name": "latency"},
        "order_limit": {"seats": 3},
        "order_fallback": {"rung": None},
        "silence": {"alert": "HeadwayQueueLong", "expires_s": 60},
    }
    async with admin_api(require_reason=True) as (client, control):
        headers = {**bearer(), "If-Match": "*"}
        answer = await client.request(route.method, route.path, headers=headers, json=bodies.get(route.name, {}))
        assert (answer.status_code, control.revision, control.not_ready()) == (422, 1, [])
        assert answer.json()["detail"] == "reason and actor: this server wants both with every command."


async def test_a_forecast_needs_none() -> None:
    """A forecast changes nothing."""
    async with admin_api(require_reason=True) as (client, _):
        answer = await client.post("/headway/v1/presets/forecast", headers=bearer(), json={"presets": ["nonsense"]})
        assert "there is no preset" in answer.json()["detail"]
