"""A class above the rights of a key: what the client, the metrics, the status and the diagnosis say of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from generating_site import GeneratingSite
from small_presets import small_preset
from starlette.types import Receive, Scope, Send
from virtual_time import on_virtual_time

from headway.http.access.identity import IDENTITY, AnonymousIdentity, Identity
from headway.operator.metrics.snapshot_families import snapshot_families
from headway_policies.entitlement import Entitlement

PRESET = small_preset(1, most_waiting=0)
OF_KEY = Identity(Entitlement("acme", frozenset({"batch"})), "acme-1")
ANONYMOUS = AnonymousIdentity().under(PRESET)


class Site(GeneratingSite):
    """All requests are those of one identity."""

    def __init__(self, identity: Identity) -> None:
        super().__init__(PRESET)
        inside: Any = self.app

        async def identified(scope: Scope, receive: Receive, send: Send) -> None:
            await inside({**scope, IDENTITY: identity}, receive, send)

        self.app: Any = identified

    def lowered(self) -> dict[str, float]:
        """The metric, by class."""
        families = {family.name: family for family in snapshot_families(self.control.snapshot())}
        return {sample.labels["class"]: sample.value for sample in families["headway_lowered_classes"].samples}


@pytest.mark.parametrize(
    ("identity", "given", "reason"), [(OF_KEY, "batch", "key"), (ANONYMOUS, "normal", "no_key")], ids=["key", "none"]
)
@on_virtual_time
async def test_the_answer_names_the_class_asked_for_the_one_given_and_the_reason(
    identity: Identity, given: str, reason: str
) -> None:
    """Served or refused; a request that gets what it asks for is told nothing."""
    site = Site(identity)
    first = asyncio.create_task(site.post({"max_tokens": 9}, x_headway_class="realtime"))
    await asyncio.sleep(0.5)
    refused, headers, _ = await site.post({}, x_headway_class="realtime")
    assert refused == 429
    served, first_headers, _ = await first
    assert served == 200
    for found in (headers, first_headers):
        assert (found["x-headway-class"], found["x-headway-class-asked"]) == (given, f"realtime; reason={reason}")
    _, headers, _ = await site.post({}, x_headway_class=given)
    assert "x-headway-class-asked" not in headers


@on_virtual_time
async def test_metrics_status_and_diagnosis_count_them() -> None:
    """By the class asked for; a stranger's word never becomes a label."""
    site = Site(ANONYMOUS)
    site.control.diagnostics.sample()
    for name in ("realtime", "realtime", "batch", "normal", "r\u00e9el", "x" * 60):
        await site.post({"max_tokens": 1}, x_headway_class=name)
    assert site.lowered() == {"realtime": 2, "normal": 0, "batch": 0}
    assert {row.name: row.lowered for row in site.control.status().classes} == site.lowered()
    site.control.diagnostics.sample()
    assert site.control.diagnostics.judge().symptoms == (
        "2 of 4 requests ask for a class that their key does not allow, and get a less urgent one: "
        "headway keys add --tenant NAME --classes realtime",
    )
