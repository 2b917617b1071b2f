"""The rates of tenants: a bucket of requests and a bucket of tokens for each tenant that has a bound.

A request is charged with an estimate of its tokens when it is admitted, and corrected when it has ended. Bound: over
any t seconds a tenant is admitted at most ``rate / 60 * t`` requests or tokens and one minute's allowance more, as far
as the estimates are right; the use beyond an estimate is a debt, which delays the next requests.

The cost of a call is O(1). Weak spot: beyond ``MAX_TENANTS`` tenants with a bound, the least recent one is
removed, and begins again with a full minute.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from headway_policies.entitlement.entitlement import Entitlement
from headway_policies.entitlement.token_bucket import TokenBucket

_MINUTE_S = 60.0
#: As many as there can be keys.
MAX_TENANTS = 10_000


class Rate(StrEnum):
    """The rates of a tenant; each is also the last word of its ``x-ratelimit-...`` headers."""

    REQUESTS = "requests"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class Allowance:
    """The rest of one rate: ``limit`` a minute, ``remaining`` now (never below 0), all again after ``reset_s``."""

    limit: float
    remaining: float
    reset_s: float


@dataclass(frozen=True, slots=True)
class Allowances:
    """The rest of both rates of a tenant; None: no bound."""

    requests: Allowance | None = None
    tokens: Allowance | None = None


@dataclass(frozen=True, slots=True)
class RateRefusal:
    """A request over a rate of its tenant. The request has taken nothing of either.

    ``retry_after_s`` is the time until it would be admitted, if no other request comes; None where it never would,
    since it alone is larger than the allowance of a minute.
    """

    rate: Rate
    retry_after_s: float | None
    left: Allowances


class TenantRates:
    """The buckets of all tenants with a bound. A tenant is known by its name."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, _Buckets] = OrderedDict()

    def admit(self, entitlement: Entitlement, tokens: float, now_s: float) -> RateRefusal | None:
        """Charge a request of so many tokens, as estimated; a refusal where it is over a rate.

        Rates that differ from those of the tenant's last request are in force from now on; what was used stays used.
        """
        buckets = self._of(entitlement, now_s)
        if buckets is None:
            return None
        wait_s, rate = buckets.wait_s(tokens, now_s)
        if not wait_s:
            buckets.charge(tokens)
            return None
        return RateRefusal(rate, wait_s if isfinite(wait_s) else None, buckets.left(now_s))

    def left(self, entitlement: Entitlement, now_s: float) -> Allowances:
        """The rest of a tenant's rates, by its last request."""
        buckets = self._tenants.get(entitlement.tenant)
        return Allowances() if buckets is None else buckets.left(now_s)

    def settle(self, tenant: str, estimated: float, used: float, now_s: float) -> None:
        """A request has ended: it was charged ``estimated`` tokens and has used so many; 0 where it was refused."""
        buckets = self._tenants.get(tenant)
        if buckets is not None and buckets.tokens is not None:
            buckets.tokens.give_back(estimated - used, now_s)

    def __len__(self) -> int:
        return len(self._tenants)

    def _of(self, entitlement: Entitlement, now_s: float) -> _Buckets | None:
        """The buckets of a tenant, by its present rates; None without a bound."""
        name = entitlement.tenant
        buckets = self._tenants.get(name)
        if entitlement.requests_per_minute is None and entitlement.tokens_per_minute is None:
            if buckets is not None:
                del self._tenants[name]
            return None
        if buckets is None:
            buckets = self._tenants[name] = _Buckets()
            if len(self._tenants) > MAX_TENANTS:
                self._tenants.popitem(last=False)
        else:
            self._tenants.move_to_end(name)
        buckets.requests = _changed(buckets.requests, entitlement.requests_per_minute, now_s)
        buckets.tokens = _changed(buckets.tokens, entitlement.tokens_per_minute, now_s)
        return buckets


@dataclass(slots=True)
class _Buckets:
    """The buckets of one tenant."""

    requests: TokenBucket | None = None
    tokens: TokenBucket | None = None

    def wait_s(self, tokens: float, now_s: float) -> tuple[float, Rate]:
        """The wait of a request of this many tokens, and the rate with the longer wait."""
        requests_s = 0.0 if self.requests is None else self.requests.wait_s(1.0, now_s)
        tokens_s = 0.0 if self.tokens is None else self.tokens.wait_s(tokens, now_s)
        return (tokens_s, Rate.TOKENS) if tokens_s > requests_s else (requests_s, Rate.REQUESTS)

    def charge(self, tokens: float) -> None:
        """Charge a request that need not wait."""
        if self.requests is not None:
            self.requests.charge(1.0)
        if self.tokens is not None:
            self.tokens.charge(tokens)

    def left(self, now_s: float) -> Allowances:
        """The rest of both rates."""
        return Allowances(_allowance(self.requests, now_s), _allowance(self.tokens, now_s))


def _changed(bucket: TokenBucket | None, per_minute: float | None, now_s: float) -> TokenBucket | None:
    """The bucket with this rate: itself where the rate is the same, a full one where there was none."""
    if per_minute is None:
        return None
    rate_per_s, burst = per_minute / _MINUTE_S, max(per_minute, 1.0)  # at least one request fits
    if bucket is None:
        return TokenBucket(rate_per_s, burst)
    if bucket.rate_per_s != rate_per_s:
        bucket.change(rate_per_s, burst, now_s)
    return bucket


def _allowance(bucket: TokenBucket | None, now_s: float) -> Allowance | None:
    if bucket is None:
        return None
    return Allowance(bucket.burst, max(bucket.remaining(now_s), 0.0), bucket.full_in_s(now_s))
