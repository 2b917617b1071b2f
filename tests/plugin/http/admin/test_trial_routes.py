"""The admin API of trials: what an order may say, what it is refused for, and what is shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from admin_api import VIEWER, admin_api, bearer

import headway
from headway.api.schema import Switched, Trial, TrialReport

SLOW = "realtime.ttft_p95_s > 2 for 30 s"


@asynccontextmanager
async def admin() -> AsyncIterator[tuple[httpx.AsyncClient, headway.Control]]:
    """A client with the operator's token, and the control room of an engine under the balanced preset."""
    async with admin_api() as (client, control):
        client.headers.update(bearer())
        yield client, control


async def put(client: httpx.AsyncClient, revision: int = 1, **order: Any) -> httpx.Response:
    """A switch to latency, on trial."""
    headers = {"If-Match": f'"{revision}"'}
    return await client.put("/headway/v1/preset", headers=headers, json={"name": "latency"} | order)


async def test_a_trial_is_begun_shown_and_kept() -> None:
    """The answer to the switch, the trial by itself, and the status say the same."""
    async with admin() as (client, control):
        assert TrialReport.model_validate((await client.get("/headway/v1/preset/trial")).json()).trial is None
        answer = await put(client, revert_after_s=600, revert_if=[SLOW, "error_share > 0.05"])
        assert answer.status_code == 200
        begun = Switched.model_validate(answer.json()).trial
        assert begun is not None
        assert (begun.name, begun.back_to, begun.end, begun.revert_after_s) == ("latency", "balanced", None, 600)
        assert [one.text for one in begun.conditions] == [SLOW, "error_ratio > 0.05 for 30 s"]
        assert control.status().preset.trial.back_to == "balanced"
        shown = TrialReport.model_validate((await client.get("/headway/v1/preset/trial")).json()).trial
        assert shown is not None
        assert (shown.name, shown.revision, shown.end) == ("latency", 2, None)
        assert (await client.post("/headway/v1/preset/keep", json={})).status_code == 428
        stale = await client.post("/headway/v1/preset/keep", json={}, headers={"If-Match": '"1"'})
        assert (stale.status_code, stale.headers["etag"]) == (412, '"2"')
        kept = await client.post("/headway/v1/preset/keep", json={"actor": "ann"}, headers={"If-Match": '"2"'})
        assert Trial.model_validate(kept.json()).why == "confirmed by ann"
        again = await client.post("/headway/v1/preset/keep", json={}, headers={"If-Match": '"2"'})
        assert (again.status_code, "no preset is on trial" in again.json()["detail"]) == (409, True)


async def test_a_viewer_sees_a_trial_and_ends_none() -> None:
    """As with every command."""
    async with admin() as (client, _):
        await put(client, revert_after_s=600)
        viewer = {"Authorization": f"Bearer {VIEWER}"}
        assert (await client.get("/headway/v1/preset/trial", headers=viewer)).status_code == 200
        kept = await client.post("/headway/v1/preset/keep", json={}, headers=viewer | {"If-Match": '"2"'})
        assert kept.status_code == 403


@pytest.mark.parametrize(
    ("order", "where"),
    [
        ({"revert_after_s": 0}, "revert_after_s"),
        ({"revert_after_s": -5}, "revert_after_s"),
        ({"revert_after_s": 1e9}, "revert_after_s"),
        ({"revert_after_s": "10"}, "revert_after_s"),
        ({"revert_after_s": True}, "revert_after_s"),
        ({"revert_if": SLOW}, "revert_if"),
        ({"revert_if": [SLOW] * 11}, "revert_if"),
        ({"revert_if": [SLOW, 5]}, "revert_if.1"),
        ({"revert_if": [SLOW, "ttft_p95_s > "]}, "revert_if.1"),
        ({"revert_if": ["x" * 10_000]}, "revert_if.0"),
        ({"revert_if": ["nobody.ttft_p95_s > 1"]}, "revert_if.0"),
        ({"revert_if": ["ttft_p95_s > nan"]}, "revert_if.0"),
        ({"revert_when": [SLOW]}, "revert_when"),
    ],
)
async def test_a_bad_order_is_refused_with_the_field_named(order: dict[str, Any], where: str) -> None:
    """422, nothing is switched, and the audit log has the attempt."""
    async with admin() as (client, control):
        refused = await put(client, **order)
        assert refused.status_code == 422, refused.text
        assert where in [one["where"] for one in refused.json()["errors"]]
        assert len(refused.content) < 4000
        assert (control.preset.name, control.revision, control.trials.last) == ("balanced", 1, None)
        assert len(control.audit.entries(10)) == 1


async def test_every_condition_that_cannot_be_read_is_listed() -> None:
    """Not the first alone."""
    async with admin() as (client, _):
        refused = await put(client, revert_if=["a > 1", SLOW, "b > 1"])
        assert [one["where"] for one in refused.json()["errors"]] == ["revert_if.0", "revert_if.2"]


async def test_an_unknown_preset_is_refused_for_its_name() -> None:
    """Whatever its conditions say of classes."""
    async with admin() as (client, _):
        refused = await put(client, name="nope", revert_if=[SLOW])
        assert [one["where"] for one in refused.json()["errors"]] == ["name"]
