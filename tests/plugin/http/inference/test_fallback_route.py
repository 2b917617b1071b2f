"""The decision to forward a request to another model: before it queues, after a refusal, and at most once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from engines import installed
from small_presets import small_preset, terms
from starlette.types import Message
from upstream_stand_in import Elsewhere, elsewhere

import headway
from headway.admission.request_context import LoweredClass, RequestContext
from headway.engine.fake import FakeEngine
from headway.errors import refusal
from headway.fallback.client import MAX_REQUEST_BYTES, FallbackClient
from headway.fallback.settings import FallbackSettings
from headway.http.access.identity import SENDER, Sender
from headway.http.inference.fallback_route import FallbackRoute
from headway.http.inference.middleware import AdmissionMiddleware
from headway.openai.asked import Asked
from headway_policies import Reason
from headway_policies.fallback.degradation import Degradation
from headway_policies.request.ticket import Timeouts

BODY = json.dumps({"model": "here", "messages": []}).encode()


class Way:
    """A control room beside another model, and what the client was sent."""

    def __init__(self, control: headway.Control) -> None:
        self.control = control
        self.fallback_controller = control.fallback_controller
        self.sent: list[Message] = []

    def out(self, body: bytes | None = BODY, headers: dict[str, str] | None = None, **context: Any) -> FallbackRoute:
        """The way out of a new request."""

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            self.sent.append(message)

        asked = RequestContext(**{"class_name": "normal"} | context)
        assert isinstance(self.fallback_controller.other_model, FallbackClient)
        return FallbackRoute(
            self.fallback_controller,
            self.fallback_controller.other_model,
            asked,
            "/v1/chat/completions",
            headers or {},
            body,
            receive,
            send,
        )


@asynccontextmanager
async def way_to(other: Elsewhere, rung: str | None = "divert") -> AsyncIterator[Way]:
    """Normal requests may be diverted, those of batch may not; the ladder stands on a rung."""
    classes = {"normal": terms(2, may_divert=True, total_s=30.0), "batch": terms(1, sheddable=True)}
    upstream = FallbackClient(FallbackSettings(other.url, "small"))
    control, _ = installed(FakeEngine(), small_preset(classes=classes), other_model=upstream)
    control.fallback_controller.put_on(rung)
    try:
        yield Way(control)
    finally:
        await upstream.close()


async def test_on_the_rung_another_model_answers_and_it_is_counted() -> None:
    """Signed with the class, the one that its key does not allow, and the model."""
    async with elsewhere() as other, way_to(other) as way:
        assert await way.out(lowered=LoweredClass("realtime", "key")).take()
        headers = dict(way.sent[0]["headers"])
        assert headers[b"x-headway-degraded"] == b"model=small"
        assert headers[b"x-headway-class-asked"] == b"realtime; reason=key"
        assert way.control.gateway.gate.degraded == {("normal", Degradation.MODEL): 1}


@pytest.mark.parametrize(
    ("rung", "more"),
    [
        ("normal", {}),
        ("shed", {}),
        ("divert", {"class_name": "batch"}),
        ("divert", {"body": None}),
        ("divert", {"asked": Asked(detached=True)}),
        ("divert", {"headers": {"x-headway-hop": "1"}}),
    ],
    ids=["all is well", "a milder rung", "not allowed", "no JSON", "its client is gone", "it came from elsewhere"],
)
async def test_otherwise_it_stays_here(rung: str, more: dict[str, Any]) -> None:
    """The other model is never asked, and nothing is counted."""
    async with elsewhere() as other, way_to(other, rung) as way:
        assert not await way.out(**more).take()
        assert (other.seen, way.sent, way.control.gateway.gate.degraded) == ([], [], {})


async def test_it_is_tried_once() -> None:
    """Not served before the queue, it is not asked again when the queue refuses: its own refusal is answered."""
    async with elsewhere(status=503) as other, way_to(other) as way:
        out = way.out()
        assert not await out.take()
        out.context.rejected = refusal(Reason.QUEUE_FULL, 1)
        assert not await out.take()
        assert (len(other.seen), way.sent, way.control.gateway.gate.degraded) == (1, [], {})


@pytest.mark.parametrize("reason", Reason)
async def test_a_refusal_is_answered_elsewhere_unless_it_holds_there_too(reason: Reason) -> None:
    """A request is refused when its time is over, when it is a crash suspect, or when the server shuts down."""
    stays = {"first_token_timeout", "stall_timeout", "total_timeout", "draining", "poison"}
    async with elsewhere() as other, way_to(other, None) as way:
        out = way.out()
        assert not await out.take()  # all is well
        way.fallback_controller.put_on("divert")
        out.context.rejected = refusal(reason, 1)
        assert await out.take() is (reason.value not in stays)


async def test_the_requests_own_time_goes_along() -> None:
    """Time that was spent here cannot be spent there."""
    async with elsewhere(wait_s=30.0) as other, way_to(other) as way:
        out = way.out(timeouts=Timeouts(total_s=0.3))
        assert not await asyncio.wait_for(out.take(), 5)
        assert way.fallback_controller.time_left_s("normal", Timeouts(), 10.0) == 20.0
        assert way.fallback_controller.time_left_s("batch", Timeouts(total_s=5.0), 1.0) == 4.0


async def test_a_body_that_will_not_be_sent_on_is_not_kept() -> None:
    """A request may wait for minutes; its body is kept only where another model may come to answer it."""
    async with elsewhere() as other, way_to(other) as way:
        assert way.out().body == BODY
        assert way.out(headers={"x-headway-hop": "1"}).body is None
        assert way.out(body=b"x" * (MAX_REQUEST_BYTES + 1)).body is None


async def test_a_line_of_a_batch_is_answered_by_no_other_model() -> None:
    """It comes again until the batch is over, where the answer of another model would be its last."""
    async with elsewhere() as other, way_to(other) as way:
        middleware = AdmissionMiddleware(
            object(),
            lambda: way.control.preset,
            fallback_controller=lambda: way.fallback_controller,  # type: ignore[arg-type]  # not called
        )

        async def never(*_: Any) -> Any:
            raise AssertionError

        for scope, expected in (({}, True), ({SENDER: Sender("acme")}, False)):
            found = middleware._fallback_route(
                RequestContext("normal"), {"path": "/v1/chat/completions", **scope}, {}, BODY, never, never
            )
            assert (found is not None) is expected
