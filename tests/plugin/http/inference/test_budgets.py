"""The budget of a tenant at its requests: what a client is told, and what counts when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from generating_site import GeneratingSite
from small_presets import small_preset
from starlette.types import Receive, Scope, Send
from virtual_time import on_virtual_time

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
        self.entitlement = Entitlement("acme", budgets=(Owned("acme", budget),))
        self.budgets = usage.budgets = TenantBudgets(usage, lambda: [self.entitlement])
        self.control.gateway.gate.listeners.usage = usage
        inside: Any = replace(self.app, charges=TenantCharges(budgets=self.budgets))

        async def identified(scope: Scope, receive: Receive, send: Send) -> None:
            await inside({**scope, IDENTITY: Identity(self.entitlement, "acme-1")}, receive, send)

        self.app: Any = identified

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
        assert b"budget_exceeded" in body
        assert b"The tenant has used its 2 requests of this month" in body


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
