"""The fallback ladder over HTTP: response headers, counters, and exactly one outcome for every ticket."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import httpx
import pytest
from engines import installed
from small_presets import small_preset, terms
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from until import until
from upstream_stand_in import Elsewhere, elsewhere
from virtual_time import on_virtual_time

from headway.engine.fake import FakeEngine, FakeParams
from headway.fallback import FixedReply
from headway.fallback.answer import ForwardResult
from headway.fallback.client import FallbackClient
from headway.fallback.diverted_request import DivertedRequest
from headway.fallback.settings import FallbackSettings
from headway.http.inference.middleware import AdmissionMiddleware
from headway_policies import Reason
from headway_policies.fallback.degradation import Degradation

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
TEXT = "We are busy."
CLASSES = {
    "normal": terms(2, fallback_max_tokens=3, may_divert=True),
    "batch": terms(1, sheddable=True),
}


class Site:
    """A server with two routes over a fake engine, and the other model or a fixed reply beside it."""

    def __init__(self, other: Elsewhere | FixedReply, step_s: float = 0.001) -> None:
        self.engine = FakeEngine(step_s=step_s)
        self.upstream = other if isinstance(other, FixedReply) else FallbackClient(FallbackSettings(other.url, "small"))
        preset = small_preset(4, classes=CLASSES)
        self.control, _ = installed(self.engine, preset, other_model=self.upstream)
        app = Starlette(routes=[Route(path, self.generate, methods=["POST"]) for path in (CHAT, RESPONSES)])
        self.app = AdmissionMiddleware(
            app, preset=lambda: self.control.preset, fallback_controller=lambda: self.control.fallback_controller
        )

    async def generate(self, request: Request) -> JSONResponse:
        asked = json.loads(await request.body())
        outputs = self.engine.generate("p", FakeParams(asked["max_tokens"]), "id")
        return JSONResponse({"tokens": len([output async for output in outputs])})

    async def post(self, max_tokens: int = 8, *, path: str = CHAT, **headers: str) -> httpx.Response:
        """One request."""
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=self.app), base_url="http://headway") as client:
            return await client.post(path, json={"max_tokens": max_tokens}, headers=headers)

    def outcomes(self) -> dict[str, int]:
        """The outcomes of all tickets."""
        found: dict[str, int] = {}
        for one in self.control.gateway.gate.desk.ledger.classes.values():
            assert one.balanced
            for outcome, number in one.outcomes.items():
                found[outcome.value] = found.get(outcome.value, 0) + number
        return found


async def test_an_answer_is_cut_and_says_so() -> None:
    """Only on the rung, and never below what was asked for."""
    async with elsewhere() as other:
        site = Site(other)
        plain = await site.post()
        site.control.fallback_controller.put_on("cap")
        cut, short = await site.post(), await site.post(max_tokens=2)
        assert [one.json()["tokens"] for one in (plain, cut, short)] == [8, 3, 2]
        assert [one.headers.get("x-headway-degraded") for one in (plain, cut)] == [None, "max_tokens=3"]
        assert site.control.gateway.gate.degraded[("normal", Degradation.MAX_TOKENS)] >= 1


async def test_a_request_of_a_shed_class_gets_retry_after() -> None:
    """429 with its reason; the other class is served."""
    async with elsewhere() as other:
        site = Site(other)
        site.control.fallback_controller.put_on("shed")
        refused = await site.post(**{"x-headway-class": "batch"})
        assert (refused.status_code, refused.headers["x-headway-reason"]) == (429, "shed")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await site.post()).status_code == 200
        assert site.control.gateway.gate.degraded[("batch", Degradation.REFUSED)] == 1
        assert site.outcomes() == {"shed": 1, "completed": 1}


async def test_another_model_answers_while_the_engine_is_gone() -> None:
    """Nothing is tried here then; without an answer there, the client gets the refusal it would have got."""
    async with elsewhere() as other:
        site = Site(other)
        site.control.fallback_controller.put_on("divert")
        site.control.gateway.gate.engine_lost()
        served = await site.post()
        assert (served.status_code, served.content) == (200, other.body)
        assert served.headers["x-headway-degraded"] == "model=small"
        other.status = 500
        refused = await site.post()
        assert (refused.status_code, refused.headers["x-headway-reason"]) == (503, "engine_lost")
        looping = await site.post(**{"x-headway-hop": "1"})
        assert (looping.status_code, len(other.seen)) == (503, 2)
        await site.upstream.close()


# ---------------------------------------------------------------------- a fixed reply


def said(answer: httpx.Response) -> str:
    """Who answered: the fixed reply, the engine, or the reason of a refusal."""
    if answer.headers.get("x-headway-degraded") == "fixed_reply":
        assert answer.json()["choices"][0]["message"]["content"] == TEXT
        return "fixed reply"
    return "engine" if answer.status_code == 200 else answer.headers["x-headway-reason"]


async def test_a_fixed_reply_answers_what_would_be_diverted() -> None:
    """On the rung and in the classes that allow it, on the two routes; all else gets its own answer or refusal."""
    site = Site(FixedReply(TEXT))
    assert said(await site.post()) == "engine"
    site.control.fallback_controller.put_on("divert")
    answer = await site.post()
    assert (answer.status_code, said(answer), answer.headers["x-headway-class"]) == (200, "fixed reply", "normal")
    assert "retry-after" not in answer.headers
    assert said(await site.post(**{"x-headway-class": "batch"})) == "shed"
    assert said(await site.post(path=RESPONSES)) == "engine"
    site.control.gateway.gate.engine_lost()
    assert said(await site.post()) == "fixed reply"
    for refused in (await site.post(path=RESPONSES), await site.post(**{"x-headway-hop": "1"})):
        assert (refused.status_code, said(refused), "retry-after" in refused.headers) == (503, "engine_lost", True)
    assert site.control.gateway.gate.degraded[("normal", Degradation.FIXED_REPLY)] == 2


class SlowReply(FixedReply):
    """Takes longer than an application has for its last event."""

    async def serve(self, request: DivertedRequest) -> ForwardResult:
        """Answer after a while."""
        await asyncio.sleep(5.0)
        return await super().serve(request)


@on_virtual_time
@pytest.mark.parametrize("reason", [Reason.ENGINE_LOST, Reason.OUT_OF_MEMORY])
async def test_what_answers_instead_of_a_lost_engine_has_a_time_of_its_own(reason: Reason) -> None:
    """The request ran, and had no token yet: its application is not waited for, but the other answer is."""
    site = Site(SlowReply(TEXT), step_s=1.0)
    asked = asyncio.create_task(site.post())
    await asyncio.sleep(0.5)
    site.control.fallback_controller.put_on("divert")
    site.control.gateway.gate.engine_lost(reason)
    assert said(await asked) == "fixed reply"
    assert site.outcomes() == {"engine_lost": 1}


@on_virtual_time
async def test_a_fixed_reply_takes_the_place_of_a_time_out_in_the_classes_that_want_it() -> None:
    """Waiting or running, on any rung; it is marked and counted apart, and the outcome stays expired."""
    site = Site(FixedReply(TEXT, ["normal"]), step_s=1.0)
    long: Any = [asyncio.create_task(site.post(100)) for _ in range(4)]
    await asyncio.sleep(1.0)
    late = await asyncio.gather(site.post(), site.post(**{"x-headway-class": "batch"}))
    assert [(one.status_code, said(one)) for one in late] == [(200, "fixed reply"), (503, "queue_timeout")]
    assert [said(one) for one in await asyncio.gather(*long)] == ["fixed reply"] * 4
    assert site.outcomes() == {"expired_queued": 2, "expired_running": 4}
    assert site.control.gateway.gate.degraded == {("normal", Degradation.FIXED_REPLY): 5}


async def test_each_request_of_a_crowd_is_answered_once_and_counted_once() -> None:
    """Some run, some wait, some come on the rung; then the engine dies. Replies and outcomes add up to the requests."""
    site = Site(FixedReply(TEXT))
    gate, controller = site.control.gateway.gate, site.control.fallback_controller
    first: Any = [asyncio.create_task(site.post(100_000)) for _ in range(4)]
    waiting: Any = [asyncio.create_task(site.post()) for _ in range(6)]
    await until(lambda: gate.desk.ledger.queued == 6)
    controller.put_on("divert")
    arrived = await asyncio.gather(*(site.post() for _ in range(5)))
    arrived += await asyncio.gather(*(site.post(**{"x-headway-class": "batch"}) for _ in range(5)))
    gate.engine_lost()
    answers = [*arrived, *await asyncio.gather(*first, *waiting)]
    sources = Counter(map(said, answers))
    assert sources["fixed reply"] == gate.degraded[("normal", Degradation.FIXED_REPLY)] == 4 + 6 + 5
    assert sources["shed"] == gate.degraded[("batch", Degradation.REFUSED)] == 5
    assert sources.total() == 20
    assert sum(site.outcomes().values()) == 15  # every request but those diverted on arrival, which need no ticket
    assert gate.desk.ledger.queued == 0
