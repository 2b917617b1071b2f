"""Idempotency keys: an order that is sent twice is carried out once, and answered twice."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import httpx
import pytest
from admin_api import OPERATOR, PRESET, VIEWER, admin_api, bearer, switch
from starlette.responses import Response
from virtual_time import on_virtual_time

from headway.admission import EngineLink
from headway.api.schema import AuditKind
from headway.http.admin.idempotency import KEPT_S, MAX_KEYS, IdempotencyKeys
from headway.http.admin.problem import ProblemError
from headway.operator import Control

KEY = {"Idempotency_Key": "5c9f0f3e"}


def same(first: httpx.Response, second: httpx.Response) -> bool:
    """Whether both have the same status, body and headers, but for the mark of a repetition."""
    headers = dict(second.headers)
    assert headers.pop("idempotent-replayed") == "true"
    return (first.status_code, first.content, dict(first.headers)) == (second.status_code, second.content, headers)


@on_virtual_time
async def test_the_same_order_again_gets_the_first_answer_and_does_nothing() -> None:
    """Even where it could not be given any more: its revision is stale by then."""
    async with admin_api() as (client, control):
        first = await switch(client, match='"1"', **KEY)
        assert (first.status_code, first.headers["etag"]) == (200, '"2"')
        assert "idempotent-replayed" not in first.headers
        await switch(client, "throughput", match='"2"')
        again = [await switch(client, match='"1"', **KEY) for _ in range(3)]
        assert all(same(first, one) for one in again)
        assert (control.preset.name, control.revision) == ("throughput", 3)
        assert len(control.audit.entries(9, AuditKind.CHANGE)) == 2
        (counted,) = control.audit.entries(9, AuditKind.NOOP)
        assert (counted.times, counted.result) == (3, "repeated: answered as the first with its Idempotency-Key")


@on_virtual_time
async def test_a_refusal_is_repeated_too() -> None:
    """The same revision of the same order is as stale as before, also when it is in force again."""
    async with admin_api() as (client, control):
        first = await switch(client, match='"2"', **KEY)
        assert first.status_code == 412
        await switch(client, "throughput")
        assert control.revision == 2
        assert same(first, await switch(client, match='"2"', **KEY))
        assert control.revision == 2


@on_virtual_time
async def test_a_key_belongs_to_one_order() -> None:
    """Another body, revision or route under it is 422, and nothing is done."""
    async with admin_api() as (client, control):
        await switch(client, match='"1"', **KEY)
        others = [
            await switch(client, "throughput", match='"1"', **KEY),
            await switch(client, match='"2"', **KEY),
            await client.post("/headway/v1/pause", headers={**bearer(), "Idempotency-Key": "5c9f0f3e"}, json={}),
        ]
        assert [one.status_code for one in others] == [422] * 3
        assert "another order" in others[0].json()["detail"]
        assert (control.preset.name, control.revision, control.not_ready()) == ("latency", 2, [])
        assert all("another order" in one.result for one in control.audit.entries(1, AuditKind.REFUSED))


@on_virtual_time
async def test_a_duplicate_of_an_order_under_way_is_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """409 with Retry-After; afterwards it gets the answer of the first."""
    told, hears = asyncio.Event(), asyncio.Event()

    async def limit_engine(_: EngineLink) -> None:
        hears.set()
        await told.wait()

    monkeypatch.setattr(EngineLink, "limit_engine", limit_engine)
    async with admin_api() as (client, control):
        running = asyncio.create_task(switch(client, **KEY))
        await hears.wait()
        duplicate = await switch(client, **KEY)
        assert (duplicate.status_code, duplicate.headers["retry-after"]) == (409, "1")
        told.set()
        first = await running
        assert first.status_code == 200
        assert same(first, await switch(client, **KEY))
        assert control.revision == 2


@on_virtual_time
async def test_a_key_is_forgotten_after_ten_minutes() -> None:
    """Then it is that of a new order."""
    async with admin_api() as (client, control):
        await switch(client, **KEY)
        await switch(client, "balanced")
        await asyncio.sleep(KEPT_S - 1)
        assert "idempotent-replayed" in (await switch(client, **KEY)).headers
        await asyncio.sleep(1)
        assert "idempotent-replayed" not in (await switch(client, **KEY)).headers
        assert control.revision == 4


@on_virtual_time
async def test_a_key_says_nothing_without_the_token() -> None:
    """A viewer and a stranger are refused as ever, and do not see the answer."""
    async with admin_api() as (client, _):
        await switch(client, **KEY)
        assert (await switch(client, token=VIEWER, **KEY)).status_code == 403
        assert (await switch(client, token="x" * 40, **KEY)).status_code == 401


@on_virtual_time
async def test_an_order_that_could_not_be_read_does_not_use_its_key_up() -> None:
    """Nothing was carried out, so that the mended order may have the same key."""
    async with admin_api() as (client, control):
        headers = {**bearer(), "If-Match": "*", "Idempotency-Key": "5c9f0f3e"}
        assert (await client.put(PRESET, headers=headers, json={"nmae": "latency"})).status_code == 422
        assert (await switch(client, **KEY)).status_code == 200
        assert control.revision == 2


@on_virtual_time
async def test_an_error_of_the_server_does_not_use_the_key_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order may be tried again under it."""
    async with admin_api() as (client, control):
        with monkeypatch.context() as broken:
            broken.setattr(Control, "switch", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await switch(client, **KEY)
        assert (await switch(client, **KEY)).status_code == 200
        recycled = [
            await client.post("/headway/v1/recycle", headers={**bearer(), "Idempotency-Key": "r"}, json={})
            for _ in range(2)
        ]
        assert [(one.status_code, "idempotent-replayed" in one.headers) for one in recycled] == [(501, False)] * 2
        assert control.revision == 2


@pytest.mark.parametrize("key", ["", " ", "two words", "k" * 129, "k\u00e4y", "tab\there"])
async def test_what_is_no_key_is_refused(key: str) -> None:
    """400, and nothing has changed."""
    async with admin_api() as (client, control):
        headers = {**bearer(), "If-Match": "*", "Idempotency-Key": key.encode("latin-1")}
        answer = await client.put(PRESET, headers=headers, json={"name": "latency"})
        assert (answer.status_code, control.revision) == (400, 1)
        assert "Idempotency-Key: one of 1 to 128" in answer.json()["detail"]


@pytest.mark.parametrize("key", ["k", "k" * 128, '"8e03978e-40d5-43dd-bc93-6894a57f9324"'])
async def test_any_word_is_a_key(key: str) -> None:
    """Quoted, as the draft has it, or not."""
    async with admin_api() as (client, _):
        first = await switch(client, Idempotency_Key=key)
        assert same(first, await switch(client, Idempotency_Key=key))


async def test_two_keys_are_none() -> None:
    """Which of them it is cannot be told."""
    async with admin_api() as (client, _):
        headers = [*bearer().items(), ("If-Match", "*"), ("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
        assert (await client.put(PRESET, headers=headers, json={"name": "latency"})).status_code == 400


async def test_only_the_last_answers_are_kept() -> None:
    """Those under way are kept besides, for nothing else keeps them from being carried out twice."""
    keys, goes_on = IdempotencyKeys(), asyncio.Event()

    async def slow() -> Response:
        await goes_on.wait()
        return Response("slow")

    async def refused() -> Response:
        raise ProblemError(HTTPStatus.CONFLICT, "no")

    under_way = asyncio.create_task(keys.first((OPERATOR, "slow"), b"", 0.0, slow))
    await asyncio.sleep(0)
    for number in range(3 * MAX_KEYS):
        assert (await keys.first((OPERATOR, str(number)), b"", 0.0, refused)).status_code == 409
    assert len(keys) == MAX_KEYS
    assert keys.answered((OPERATOR, "0"), b"", 1.0) is None
    assert keys.answered((OPERATOR, str(3 * MAX_KEYS - 1)), b"", 1.0) is not None
    with pytest.raises(ProblemError, match="under way"):
        keys.answered((OPERATOR, "slow"), b"", 1.0)
    goes_on.set()
    await under_way
    assert len(keys) <= MAX_KEYS
    assert keys.answered((OPERATOR, "slow"), b"", KEPT_S) is None
    assert len(keys) == 0
