"""The accounting of the real server: sums over its tenants are the counters of vLLM, whatever became of requests."""

from __future__ import annotations

import asyncio
import csv
import io
from typing import Any

import httpx
import requests
from client_connections import CONNECTIONS
from counted_usage import assert_counted, usage_of
from generation_requests import body
from strict_server import StrictServer

COMPLETIONS = "/v1/completions"
#: Longer than a block of the KV cache, so that a second one finds it in the prefix cache.
LONG = "A sentence that is said again and again. " * 40


async def _one(client: httpx.AsyncClient, key: str, tokens: int, lines: int | None = None, **more: Any) -> None:
    """One request; with ``lines`` a stream whose client leaves after so many of them."""
    content = {**body(COMPLETIONS, tokens, stream=lines is not None), **more}
    async with client.stream("POST", COMPLETIONS, json=content, headers={"authorization": f"Bearer {key}"}) as answer:
        seen = 0
        async for _ in answer.aiter_lines():
            seen += 1
            if lines is not None and seen >= lines:
                return


def _refused(strict: StrictServer, key: str) -> requests.Response:
    """A request that may not wait, while the operator has paused dispatch."""
    assert strict.server.admin("POST", "pause", json={"reason": "a test"}).status_code == 200
    try:
        return requests.post(
            strict.server.url + COMPLETIONS,
            json=body(COMPLETIONS, 5),
            headers={"authorization": f"Bearer {key}", "x-headway-queue": "no"},
            timeout=60,
        )
    finally:
        assert strict.server.admin("POST", "resume", json={"reason": "a test"}).status_code == 200


async def test_the_sum_over_tenants_is_what_vllm_has_counted(strict: StrictServer) -> None:
    """Error 0, over streams that are left halfway, answers of several sequences, stop strings, cached prompts and a
    refusal in between; each figure with its tenant and the name of its key."""
    server, top, low = strict.server, strict.keys["top"], strict.keys["low"]
    server.use("balanced")
    before = {row["group"]["tenant"]: row for row in usage_of(server)["rows"]}
    async with httpx.AsyncClient(base_url=server.url, timeout=300, limits=CONNECTIONS) as client:
        await _one(client, top, 3, prompt=LONG)
        first = asyncio.gather(
            _one(client, top, 20, n=3), _one(client, low, 900, lines=8), _one(client, top, 900, lines=1, n=2),
            _one(client, low, 200, stop=["e", "a"]), _one(client, top, 3, prompt=[LONG, "another one"]),
            *(_one(client, low, 10 + number, lines=3 + number) for number in range(8)),
        )  # fmt: skip
        refused = await asyncio.to_thread(_refused, strict, low)
        await first
        with_timeout = asyncio.create_task(_one(client, top, 1500, prompt="unstreamed"))
        await asyncio.sleep(0.5)
        with_timeout.cancel()
        await asyncio.gather(with_timeout, return_exceptions=True)
    assert refused.status_code == requests.codes.too_many
    found = await asyncio.to_thread(assert_counted, server)
    added = {row["group"]["tenant"]: row for row in found["rows"]}

    def more(tenant: str, figure: str) -> float:
        was = before.get(tenant)
        return float(added[tenant][figure]) - (0.0 if was is None else float(was[figure]))

    assert (more("top", "requests"), more("low", "requests"), more("low", "refused")) == (5, 11, 1)
    assert more("top", "cached_tokens") > 0
    assert more("low", "seat_s") > 0
    assert more("low", "kv_token_s") > 0
    keys = {(row["group"]["tenant"], row["group"]["key"]) for row in usage_of(server, "by=tenant,key")["rows"]}
    assert {tenant for tenant, key in keys if key} >= {"top", "low"}
    assert not {key for _, key in keys} & {*strict.keys.values()}


def test_the_answer_is_a_table_for_those_with_a_token(strict: StrictServer) -> None:
    """CSV by the Accept header, and nothing without a token or with a tenant's key."""
    url = f"{strict.server.url}/headway/v1/usage"
    assert requests.get(url, timeout=30).status_code == requests.codes.unauthorized
    with_key = {"authorization": f"Bearer {strict.keys['top']}"}
    assert requests.get(url, headers=with_key, timeout=30).status_code == requests.codes.unauthorized
    viewer = {"authorization": f"Bearer {strict.server.viewer_token}", "accept": "text/csv"}
    answer = requests.get(url, params={"by": "class,outcome"}, headers=viewer, timeout=30)
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert all({"class", "outcome", "prompt_tokens"} <= row.keys() for row in rows)


def test_the_metrics_have_the_same_tokens_by_tenant(strict: StrictServer) -> None:
    """Up to 32 tenants each have a label of their own."""
    found, scrape = assert_counted(strict.server), strict.server.scrape()
    for row in found["rows"]:
        tenant = row["group"]["tenant"]
        assert scrape("headway_tenant_requests_total", tenant=tenant) == row["requests"]
        assert scrape("headway_tenant_tokens_total", tenant=tenant, kind="output") == row["output_tokens"]
    assert scrape("headway_usage_lost_total") == 0
