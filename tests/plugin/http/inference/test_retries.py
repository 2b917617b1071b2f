"""Retries: how they are recognised, and that a refused one over its budget is told to be the last."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest
from starlette.types import Message

from headway.admission import RequestContext
from headway.api_errors import ERRORS
from headway.errors import TERMS, refusal
from headway.http.inference.deferred_response import DeferredResponse
from headway.http.inference.retries import OVERLOADED, Retries, is_retry
from headway_policies import Reason
from headway_policies.entitlement.retry_budget import LEAST

STAINLESS, ENVOY = "x-stainless-retry-count", "x-envoy-attempt-count"
SECOND = {STAINLESS: "1"}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, False),
        ({STAINLESS: "0"}, False),
        ({STAINLESS: "1"}, True),
        ({STAINLESS: "12"}, True),
        ({ENVOY: "1"}, False),
        ({ENVOY: "2"}, True),
        ({STAINLESS: "0", ENVOY: "2"}, True),
        *[({STAINLESS: value}, False) for value in ("", "-1", "1.5", "one", "\u00b9", "1" * 10, "1" * 30_000, " 1")],
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_retry_is_known_by_its_count(headers: dict[str, str], expected: bool) -> None:
    """By either header; what is no short number says nothing."""
    assert is_retry(headers) is expected


class Tenant:
    """The requests of one tenant, on a clock that stands still."""

    def __init__(self) -> None:
        self.retries = Retries(now_s=lambda: 0.0)
        self.context = RequestContext(class_name="normal", tenant="a")

    def invited(self, context: RequestContext | None = None) -> bool:
        """Whether another retry, which a full queue refuses, may come again."""
        asked = context or self.context
        assert self.retries.read(SECOND, asked)
        return self.retries.last(asked, Reason.QUEUE_FULL, HTTPStatus.TOO_MANY_REQUESTS) is None

    async def refused(self, reason: Reason, headers: dict[str, str], **options: Any) -> tuple[int, dict[str, str], str]:
        """The response to a request that is refused for this reason: status, headers, body."""
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        status = options.get("status", HTTPStatus.TOO_MANY_REQUESTS)
        context = RequestContext(class_name="normal", tenant="a", rejected=refusal(reason, 7))
        retries = self.retries if self.retries.read(headers, context) else None
        response = DeferredResponse(context, "/v1/chat/completions", send, status, retries=retries)
        assert await response.finish()
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return int(sent[0]["status"]), found, sent[1]["body"].decode()


def test_a_first_try_is_no_retry() -> None:
    """The first try fills the budget as soon as it asks for a permit: five of them pay for one retry more."""
    tenant = Tenant()
    for headers in ({}, *[{STAINLESS: "0"}] * 4):
        assert not tenant.retries.read(headers, tenant.context)
        assert tenant.context.on_arrival is not None
        tenant.context.on_arrival()
    invited = [tenant.invited() for _ in range(6)]
    assert invited == [True] * (int(LEAST) + 1) + [False] * 2


def test_what_asks_for_no_permit_fills_no_budget() -> None:
    """Any number of requests to another route pay for no retry."""
    tenant = Tenant()
    for _ in range(100):
        tenant.retries.read({}, tenant.context)
    invited = [tenant.invited() for _ in range(6)]
    assert invited == [True] * int(LEAST) + [False] * 3


@pytest.mark.parametrize("reason", sorted(OVERLOADED))
async def test_a_refused_retry_over_its_budget_is_told_to_be_the_last(reason: Reason) -> None:
    """A 429 that says not to retry, in place of the refusal for its reason; first tries are still invited."""
    tenant = Tenant()
    for _ in range(int(LEAST)):
        _, headers, _ = await tenant.refused(reason, SECOND)
        assert headers["x-headway-reason"] == reason
        assert 1 <= int(headers["retry-after"]) <= 30
    status, headers, body = await tenant.refused(reason, SECOND)
    assert (status, headers["x-should-retry"], headers["x-headway-reason"]) == (429, "false", "retry_budget")
    assert headers["x-headway-class"] == "normal"
    assert not headers.keys() & {"retry-after", "retry-after-ms"}
    assert '"code":"retry_budget"' in body
    assert str(reason) in body
    _, headers, _ = await tenant.refused(reason, {})
    assert (headers["x-headway-reason"], "x-should-retry" in headers) == (str(reason), False)
    assert tenant.retries.ended == {"normal": 1}


@pytest.mark.parametrize("reason", sorted(set(Reason) - OVERLOADED))
async def test_other_refusals_cost_no_budget(reason: Reason) -> None:
    """While a server drains, starts or has lost its engine another one may serve the retry; time-outs say no anyway."""
    tenant = Tenant()
    for _ in range(10):
        status, headers, _ = await tenant.refused(reason, SECOND)
        assert (status, headers["x-headway-reason"]) == (TERMS[reason][0], str(reason))
    assert tenant.invited()
    assert not tenant.retries.ended


async def test_the_budget_of_one_tenant_is_not_spent_by_another() -> None:
    """Nor by any number of them."""
    tenant, other = Tenant(), RequestContext(class_name="normal", tenant="b")
    for _ in range(9):
        await tenant.refused(Reason.QUEUE_FULL, SECOND)
    assert tenant.invited(other)


async def test_the_status_is_the_one_of_a_full_queue() -> None:
    """A server that answers a full queue as vLLM does answers this as well."""
    tenant = Tenant()
    answers = [await tenant.refused(Reason.QUEUE_FULL, SECOND, status=HTTPStatus.SERVICE_UNAVAILABLE) for _ in range(9)]
    assert {status for status, _, _ in answers} == {503}
    assert answers[-1][1]["x-headway-reason"] == "retry_budget"


def test_every_reason_that_invites_a_retry_is_an_overload_or_of_this_server_alone() -> None:
    """A new reason has to be put on one side."""
    elsewhere = {Reason.DRAINING, Reason.NOT_READY, Reason.ENGINE_LOST, Reason.OUT_OF_MEMORY}
    assert {reason for reason, (_, retry, _) in TERMS.items() if retry} == OVERLOADED | elsewhere
    assert str(ERRORS["retry_budget"].advice) == "x-should-retry: false"
