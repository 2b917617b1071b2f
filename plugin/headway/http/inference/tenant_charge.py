"""The rates of a tenant at one request: it is charged an estimate at the start, and what it has used at the end.

A refusal for a rate is 429 ``rate_limit_exceeded``, with OpenAI's headers of what is left:

    x-ratelimit-limit-requests, -remaining-requests, -reset-requests, and the same of tokens
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from math import ceil

from headway.admission import RequestContext, loop_time_s
from headway.api_errors import BadRequest
from headway.http.access.identity import Identity
from headway_policies import Ending
from headway_policies.entitlement import Allowance, Allowances, RateRefusal, TenantRates
from headway_policies.request import DEFAULT_MAX_TOKENS

_MS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class TenantCharges:
    """Charges all requests. ``context_tokens`` gives the longest sequence of the model: no answer is longer."""

    rates: TenantRates = field(default_factory=TenantRates)
    context_tokens: Callable[[], int | None] = lambda: None

    def charge(self, identity: Identity | None, context: RequestContext) -> TenantCharge | None:
        """Charge one request; None where nothing bounds its tenant. Raises BadRequest where it is over a rate."""
        if identity is None or not identity.entitlement.has_rates:
            return None
        output_tokens = DEFAULT_MAX_TOKENS if context.max_tokens is None else context.max_tokens
        longest = self.context_tokens()
        if longest is not None:
            output_tokens = min(output_tokens, longest)
        asked = context.asked
        tokens = asked.prompts * (asked.prompt_tokens + asked.answers * output_tokens)
        refusal = self.rates.admit(identity.entitlement, tokens, loop_time_s())
        if refusal is not None:
            raise _over_rate(refusal)
        return TenantCharge(self.rates, identity, tokens)


@dataclass(frozen=True, slots=True)
class TenantCharge:
    """The tokens that one request was charged."""

    rates: TenantRates
    identity: Identity
    tokens: int

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The rest of the tenant's rates, for the response; empty where it has none."""
        return list(_left(self.rates.left(self.identity.entitlement, loop_time_s())))

    def settle(self, context: RequestContext) -> None:
        """The request is over: charge what it has used, nothing where the engine never had it, or refused it.

        A request that ran and reported nothing, since it was cut off or runs on without its request, is charged as
        estimated.
        """
        permit = context.permit
        usage = None if permit is None else permit.usage
        invalid = permit is not None and permit.ending is Ending.INVALID
        ran = context.asked.detached or (permit is not None and permit.dispatched_s is not None and not invalid)
        used = usage.prompt_tokens + usage.output_tokens if usage is not None else self.tokens if ran else 0
        self.rates.settle(self.identity.tenant, self.tokens, used, loop_time_s())


def _over_rate(refusal: RateRefusal) -> BadRequest:
    rate, wait_s = refusal.rate, refusal.retry_after_s
    allowance = getattr(refusal.left, rate.value)
    headers = [(b"x-headway-reason", b"rate_limit"), *_left(refusal.left)]
    if wait_s is None:
        text = f"This request alone is more than the {allowance.limit:g} {rate} a minute of its tenant."
        headers.append((b"x-should-retry", b"false"))
    else:
        text = f"The tenant has used its {allowance.limit:g} {rate} a minute. Try again in {ceil(wait_s)} s."
        headers.append((b"retry-after", str(ceil(wait_s)).encode()))
        headers.append((b"retry-after-ms", str(ceil(wait_s * _MS_PER_S)).encode()))
    return BadRequest(HTTPStatus.TOO_MANY_REQUESTS, text, "rate_limit_exceeded", headers)


def _left(allowances: Allowances) -> Iterator[tuple[bytes, bytes]]:
    for name, allowance in (("requests", allowances.requests), ("tokens", allowances.tokens)):
        if allowance is not None:
            yield from _fields(name, allowance)


def _fields(name: str, allowance: Allowance) -> Iterator[tuple[bytes, bytes]]:
    words = {
        "limit": f"{allowance.limit:.0f}",
        "remaining": str(int(allowance.remaining)),
        "reset": f"{ceil(allowance.reset_s * _MS_PER_S)}ms",
    }
    for word, value in words.items():
        yield f"x-ratelimit-{word}-{name}".encode(), value.encode()
