"""The rates of a tenant at one request: what it is charged at the start, and what stays charged at its end."""

from __future__ import annotations

from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from small_presets import small_preset

from headway.admission import RequestContext
from headway.api_errors import BadRequest
from headway.http.access.identity import Identity
from headway.http.inference import tenant_charge
from headway.http.inference.request_info import read_request_info
from headway.http.inference.tenant_charge import TenantCharges
from headway.openai.asked import Asked
from headway.openai.routes import route_at
from headway_policies import Ending, Usage
from headway_policies.entitlement import Entitlement, RequestCaps

ACME = Identity(Entitlement("acme", requests_per_minute=60, tokens_per_minute=6000))


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time stands still: nothing is refilled."""
    monkeypatch.setattr(tenant_charge, "loop_time_s", lambda: 0.0)


def asked(**more: Any) -> RequestContext:
    """A request of 100 prompt tokens and 900 more."""
    return RequestContext("normal", "acme", asked=Asked(prompt_tokens=100, max_tokens=900, **more))


def left(charges: TenantCharges) -> float:
    """The tokens that are left of the minute."""
    tokens = charges.rates.left(ACME.entitlement, 0.0).tokens
    assert tokens is not None
    return tokens.remaining


@pytest.mark.parametrize(
    ("more", "estimate"),
    [({}, 1000), ({"prompts": 2}, 2000), ({"answers": 3}, 2800), ({"prompts": 2, "answers": 2}, 3800)],
)
def test_a_request_is_charged_for_each_prompt_and_each_answer(more: dict[str, int], estimate: float) -> None:
    """Before it runs."""
    charges = TenantCharges()
    assert charges.charge(ACME, asked(**more)) is not None
    assert left(charges) == 6000 - estimate


def test_a_request_is_charged_for_no_more_than_its_cap_allows() -> None:
    """A body that names no limit may use the cap of its tenant, not the usual length of an answer."""
    capped = Identity(Entitlement("acme", tokens_per_minute=400, caps=RequestCaps(output_tokens=16)))
    context = read_request_info({}, route_at("/v1/completions"), b'{"prompt": "x"}', small_preset(), capped)
    charges = TenantCharges()
    assert charges.charge(capped, context) is not None
    tokens = charges.rates.left(capped.entitlement, 0.0).tokens
    assert tokens is not None
    assert tokens.remaining == 400 - context.asked.prompt_tokens - 16


def test_what_has_no_answer_is_charged_for_its_prompts() -> None:
    """Embeddings and the like."""
    charges = TenantCharges()
    context = RequestContext("normal", asked=Asked(route_at("/v1/embeddings"), prompts=20, prompt_tokens=10))
    assert charges.charge(ACME, context) is not None
    assert left(charges) == 6000 - 200


@pytest.mark.parametrize(("longest", "estimate"), [(None, 1000), (4096, 1000), (512, 612)])
def test_no_answer_is_charged_for_more_than_the_context(longest: int | None, estimate: float) -> None:
    """Whatever it asks for, once the engine has said how long a sequence may be."""
    charges = TenantCharges(context_tokens=lambda: longest)
    assert charges.charge(ACME, asked()) is not None
    assert left(charges) == 6000 - estimate


@pytest.mark.parametrize(
    ("permit", "detached", "ending", "used"),
    [
        (None, False, Ending.COMPLETED, 0),
        (SimpleNamespace(usage=None, dispatched_s=None, ending=Ending.INVALID), False, Ending.INVALID, 0),
        (SimpleNamespace(usage=None, dispatched_s=1.0, ending=Ending.INVALID), False, Ending.INVALID, 0),
        (SimpleNamespace(usage=Usage(90, 10), dispatched_s=1.0, ending=None), False, Ending.COMPLETED, 100),
        (SimpleNamespace(usage=None, dispatched_s=1.0, ending=Ending.CANCELLED), False, Ending.CANCELLED, 1000),
        (None, True, Ending.COMPLETED, 1000),
        (None, True, Ending.CANCELLED, 1000),
        (None, True, Ending.INVALID, 0),
    ],
    ids=[
        "asked for no seat", "refused", "refused by the engine", "completed", "cut off", "runs on", "runs on unread",
        "refused in the background",
    ],
)  # fmt: skip
def test_what_stays_charged(permit: Any, detached: bool, ending: Ending, used: float) -> None:
    """The usage is charged; where nobody knows, and the engine worked, the estimate."""
    charges, context = TenantCharges(), asked(detached=detached)
    charge = charges.charge(ACME, context)
    assert charge is not None
    context.permit = permit
    charge.settle(context, ending)
    assert left(charges) == 6000 - used


def test_a_request_over_a_rate_is_refused_with_what_is_left() -> None:
    """And is charged nothing."""
    charges = TenantCharges()
    for _ in range(6):
        charges.charge(ACME, asked())
    with pytest.raises(BadRequest) as caught:
        charges.charge(ACME, asked())
    headers = dict(caught.value.headers)
    assert (caught.value.status, caught.value.code) == (HTTPStatus.TOO_MANY_REQUESTS, "rate_limit_exceeded")
    assert headers[b"retry-after"] == b"10"
    assert headers[b"x-ratelimit-remaining-tokens"] == b"0"
    assert headers[b"x-ratelimit-remaining-requests"] == b"54"


def test_one_that_never_fits_is_told_not_to_come_again() -> None:
    """The request alone is more than the allowance of a minute."""
    with pytest.raises(BadRequest) as caught:
        TenantCharges().charge(ACME, asked(prompts=7))
    headers = dict(caught.value.headers)
    assert headers[b"x-should-retry"] == b"false"
    assert b"retry-after" not in headers


def test_a_tenant_without_rates_is_not_charged() -> None:
    """Nor one that nobody knows."""
    assert TenantCharges().charge(Identity(Entitlement("free")), asked()) is None
    assert TenantCharges().charge(None, asked()) is None
