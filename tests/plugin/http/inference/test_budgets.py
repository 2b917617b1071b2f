"""The budget of a tenant at its requests: what a client is told, and what counts when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from generating_site import GeneratingSite
from small_presets import small_preset
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from virtual_time import on_virtual_time

from headway.admission import REQUEST_CONTEXT, RequestContext
from headway.engine.fake import FakeParams
from headway.http.access.identity import IDENTITY, Identity
from headway.http.inference import TenantCharges
from headway.usage import TenantBudgets, UsageLog, UsageStore
from headway_policies.budgets import Bound, Budget, Owned, Span, Unit
from headway_policies.entitlement import Entitlement

REQUESTS, TOKENS = Bound(Unit.REQUESTS, Span.MONTH), Bound(Unit.TOKENS, Span.MONTH)


class Site(GeneratingSite):
    """All requests are those of one tenant with this budget."""

    def __init__(self, budget: Budget, usage: UsageLog) -> None:
        super().__init__(small_preset(1))
        self.key = "acme-1"
        self.entitlement = Entitlement("acme", budgets=(Owned("acme", budget),))
        self.budgets = usage.budgets = TenantBudgets(usage, lambda: [self.entitlement])
        self.control.gateway.gate.listeners.usage = usage
        self.inside: Any = replace(self.app, charges=TenantCharges(budgets=self.budgets))

        async def identified(scope: Scope, receive: Receive, send: Send) -> None:
            await self.inside({**scope, IDENTITY: Identity(self.entitlement, self.key)}, receive, send)

        self.app: Any = identified
        self.tasks: list[asyncio.Task[None]] = []

    async def generate(self, request: Request) -> Response:
        """Also in the background, in so many ``turns``; 0: the task ends before it calls the engine."""
        asked = await request.json()
        if not asked.get("background"):
            return await super().generate(request)
        if asked.get("invalid"):
            return JSONResponse({}, 400)

        async def respond() -> None:
            for turn in range(asked.get("turns", 1)):
                async for _ in self.engine.generate("p", FakeParams(3), f"id-{turn}"):
                    pass
                await asyncio.sleep(1.0)  # a tool

        self.tasks.append(asyncio.create_task(respond()))
        return JSONResponse({"status": "queued"})

    def state(self) -> tuple[float, float]:
        """What is used and held of the first bound."""
        found = self.budgets.states_of(self.entitlement)[0]
        return found.used, found.held


@contextmanager
def served(path: Path, limits: dict[Bound, float], **more: Any) -> Iterator[Site]:
    """A site with an accounting."""
    usage = UsageLog(UsageStore(path / "usage.db"), every_s=0.01)
    try:
        yield Site(Budget(limits, **more), usage)
    finally:
        usage.close()


@on_virtual_time
async def test_a_budget_that_is_used_refuses_until_it_counts_anew(tmp_path: Path) -> None:
    """With OpenAI's code and headers; a request that runs is counted before it has ended."""
    with served(tmp_path, {REQUESTS: 2}) as site:
        first = asyncio.create_task(site.post({"max_tokens": 9}))
        await asyncio.sleep(0.01)
        assert site.state() == (0, 1)
        status, headers, _ = await site.post({"max_tokens": 2})
        assert (status, headers["x-ratelimit-limit-requests"]) == (200, "2")
        assert (await first)[0] == 200
        assert site.state() == (2, 0)
        status, headers, body = await site.post({})
        assert (status, headers["x-headway-reason"], headers["x-should-retry"]) == (429, "budget", "false")
        assert 0 < int(headers["retry-after"]) <= 31 * 86_400
        left = {name: headers[f"x-ratelimit-{name}-requests"] for name in ("limit", "remaining", "reset")}
        assert left == {"limit": "2", "remaining": "0", "reset": left["reset"]}
        assert int(left["reset"].removesuffix("ms")) == pytest.approx(1000 * int(headers["retry-after"]), abs=1100)
        assert b"budget_exceeded" in body
        assert b"The tenant has used its 2 requests of this month" in body


@on_virtual_time
async def test_many_keys_of_a_tenant_have_one_budget(tmp_path: Path) -> None:
    """However many keys it makes."""
    with served(tmp_path, {REQUESTS: 3}) as site:
        statuses = []
        for number in range(6):
            site.key = f"acme-{number}"
            statuses.append((await site.post({"max_tokens": 2}))[0])
        assert statuses == [200, 200, 200, 429, 429, 429]


@on_virtual_time
async def test_what_a_request_used_counts_and_not_its_estimate(tmp_path: Path) -> None:
    """Once its record is made."""
    with served(tmp_path, {TOKENS: 10_000}) as site:
        running = asyncio.create_task(site.post({"max_tokens": 5}))
        await asyncio.sleep(0.01)
        used, held = site.state()
        assert used == 0
        assert held >= 5
        await running
        used, held = site.state()
        assert held == 0
        assert used > 0
        assert (await site.post({"max_tokens": 20_000}))[0] == 429


@on_virtual_time
async def test_close_to_its_end_a_tenant_has_the_least_urgent_class(tmp_path: Path) -> None:
    """The client is told why; the diagnosis does not take it for a key without rights."""
    with served(tmp_path, {REQUESTS: 3}, soft_ratio=0.5) as site:
        seen = []
        for _ in range(3):
            _, headers, _ = await site.post({"max_tokens": 1}, x_headway_class="realtime")
            seen.append((headers["x-headway-class"], headers.get("x-headway-class-asked")))
        assert seen == [("realtime", None), *[("batch", "realtime; reason=budget")] * 2]
        assert not site.control.gateway.gate.lowered


@on_virtual_time
async def test_a_class_above_the_rights_of_a_key_stays_the_reason(tmp_path: Path) -> None:
    """The budget lowers it further, and the diagnosis still names the key."""
    with served(tmp_path, {REQUESTS: 3}, soft_ratio=0.1) as site:
        site.entitlement = replace(site.entitlement, classes=frozenset({"normal"}))
        _, headers, _ = await site.post({"max_tokens": 1}, x_headway_class="realtime")
        assert (headers["x-headway-class"], headers["x-headway-class-asked"]) == ("batch", "realtime; reason=key")
        assert dict(site.control.gateway.gate.lowered) == {"realtime": 1}


@on_virtual_time
async def test_a_request_that_never_reaches_the_gate_holds_nothing(tmp_path: Path) -> None:
    """A body that vLLM refuses before it asks for a seat."""
    with served(tmp_path, {REQUESTS: 3}, concurrency=1) as site:
        for _ in range(3):
            await site.post({"max_tokens": 1})
        assert site.state() == (3, 0)


BACKGROUND = "/v1/responses"


@on_virtual_time
async def test_a_response_in_the_background_holds_its_part_until_its_task_ends(tmp_path: Path) -> None:
    """Also between two calls of the engine; each of them counts, and the hold ends with the last record."""
    with served(tmp_path, {REQUESTS: 9}, concurrency=1) as site:
        assert (await site.post({"background": True, "turns": 2}, BACKGROUND))[0] == 200
        for wait_s, used in ((0.0, 0), (3.5, 1), (2.0, 1)):
            await asyncio.sleep(wait_s)
            assert site.state() == (used, 1)
            assert (await site.post({}))[0] == 429
        await asyncio.gather(*site.tasks)
        await asyncio.sleep(0.1)
        assert site.state() == (2, 0)
        assert (await site.post({"max_tokens": 1}))[0] == 200


@on_virtual_time
async def test_a_response_in_the_background_that_is_cancelled_holds_nothing(tmp_path: Path) -> None:
    """Once the engine has let go of it."""
    with served(tmp_path, {REQUESTS: 9}) as site:
        await site.post({"background": True}, BACKGROUND)
        await asyncio.sleep(1.5)
        site.tasks[0].cancel()
        await asyncio.sleep(3.0)
        assert site.state() == (1, 0)


@on_virtual_time
async def test_what_is_refused_or_never_begins_in_the_background_holds_nothing(tmp_path: Path) -> None:
    """A refusal at once, a task that fails before it calls the engine within seconds."""
    with served(tmp_path, {REQUESTS: 9}) as site:
        await site.post({"background": True, "invalid": True}, BACKGROUND)
        await asyncio.sleep(0.1)
        assert site.state() == (0, 0)
        await site.post({"background": True, "turns": 0}, BACKGROUND)
        await asyncio.sleep(2.0)
        assert site.state() == (0, 1)
        await asyncio.sleep(10.0)
        assert site.state() == (0, 0)


@on_virtual_time
async def test_what_a_websocket_asks_for_is_its_tenants(tmp_path: Path) -> None:
    """Each call of the engine is a request, with the share of the key; a budget that only counts counts it."""
    with served(tmp_path, {REQUESTS: 1}, counts_only=True) as site:
        await site.budgets.refresh()
        identity, contexts = Identity(replace(site.entitlement, share=3.0), "acme-1"), list[RequestContext | None]()

        async def talk(scope: Scope, receive: Receive, send: Send) -> None:
            contexts.append(REQUEST_CONTEXT.get())
            for turn in range(2):
                async for _ in site.engine.generate("p", FakeParams(2), f"id-{turn}"):
                    pass

        inside = replace(site.inside, app=talk)
        await inside({"type": "websocket", IDENTITY: identity}, None, None)  # type: ignore[arg-type]  # not called
        await asyncio.sleep(0.1)
        await site.budgets.refresh()
        ((owner, state),) = site.budgets.states()
        assert (owner.label, state.used, state.held) == ("tenant acme", 2, 0)
        assert [one and (one.tenant, one.share, one.key) for one in contexts] == [("acme", 3.0, "acme-1")]
