"""The rates and budgets of a tenant at one request: an estimate counts until its end, and then what it has used.

A refusal for a rate is 429 ``rate_limit_exceeded``, one for a budget 429 ``budget_exceeded``. Responses have OpenAI's
headers of what is left, of the rate or the budget that leaves the least:

    x-ratelimit-limit-requests, -remaining-requests, -reset-requests, and the same of tokens
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from math import ceil
from operator import attrgetter

from headway.admission import Permit, RequestContext, loop_time_s
from headway.api_errors import BadRequest
from headway.http.access.identity import Identity
from headway.openai.routes import Seats
from headway.usage import TenantBudgets, refusal_of
from headway_policies import Ending
from headway_policies.budgets import BudgetState, Finding, Hold
from headway_policies.entitlement import Allowance, Allowances, Entitlement, RateRefusal, TenantRates
from headway_policies.request import DEFAULT_MAX_TOKENS

_MS_PER_S = 1000
#: A response in the background that has not asked the engine for anything by then never will.
_BEGINS_WITHIN_S = 10.0
#: A client need not try again by itself after a longer wait than this.
_RETRIED_S = 60.0
_NO_RETRY = (b"x-should-retry", b"false")


@dataclass(frozen=True, slots=True)
class TenantCharges:
    """Charges all requests. ``context_tokens`` gives the longest sequence of the model: no answer is longer.

    ``budgets`` are judged where the server has the accounting.
    """

    rates: TenantRates = field(default_factory=TenantRates)
    context_tokens: Callable[[], int | None] = lambda: None
    budgets: TenantBudgets | None = None

    def charge(self, identity: Identity | None, context: RequestContext) -> TenantCharge | None:
        """Charge one request; None where nothing bounds its tenant. Raises BadRequest where it is over a rate or a
        budget.
        """
        if identity is None:
            return None
        entitlement, budgets = identity.entitlement, self.budgets if identity.entitlement.budgets else None
        if budgets is None and not entitlement.has_rates:
            return None
        asked, longest = context.asked, self.context_tokens()
        output_tokens = DEFAULT_MAX_TOKENS if context.max_tokens is None else context.max_tokens
        if longest is not None:
            output_tokens = min(output_tokens, longest)
        if asked.route.seats is Seats.ONE:  # embeddings and the like have no answer of tokens
            output_tokens = 0
        tokens = asked.prompts * (asked.prompt_tokens + asked.answers * output_tokens)
        findings = [] if budgets is None else budgets.judge(entitlement, tokens)
        over = refusal_of(findings)
        if over is not None:
            raise _over_budget(over, self.left(entitlement))
        refusal = self.rates.admit(entitlement, tokens, loop_time_s())
        if refusal is not None:
            raise _over_rate(refusal)
        hold = None if budgets is None else budgets.hold(entitlement, tokens)
        background = None
        if budgets is not None and hold is not None and asked.detached:
            background = BackgroundHold(partial(budgets.release, hold))
            context.on_own_call = background.called
        return TenantCharge(self, identity, tokens, budgets, hold, background, lowers=bool(findings))

    def left(self, entitlement: Entitlement) -> Allowances:
        """The rest of a tenant's rates and budgets."""
        left = self.rates.left(entitlement, loop_time_s())
        return left if self.budgets is None else _least(left, self.budgets.states_of(entitlement))


class BackgroundHold:
    """Holds budgets for a response in the background until its task has ended and its last call has its record.

    Its task is the first that calls the engine. Where no task does, the hold is released a while after the HTTP
    request.
    """

    def __init__(self, release: Callable[[], None]) -> None:
        self._release: Callable[[], None] | None = release
        self._last: RequestContext | None = None

    def called(self, own: RequestContext) -> None:
        """The engine is called, with a context of its own for this call."""
        task = asyncio.current_task() if self._last is None else None
        self._last = own
        if task is not None:
            task.add_done_callback(lambda _: self._over())

    def answered(self, *, runs_on: bool) -> None:
        """The HTTP request is over; whether a task may go on after it."""
        if self._last is None:
            delay_s = _BEGINS_WITHIN_S if runs_on else 0.0
            asyncio.get_running_loop().call_later(delay_s, lambda: self._over() if self._last is None else None)

    def _over(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            _release_with(None if self._last is None else self._last.permit, release)


@dataclass(frozen=True, slots=True)
class TenantCharge:
    """The tokens charged to a request, and its reservation in ``budgets``. ``lowers``: one is close to its end,
    and the request gets the least urgent class. ``background`` is what holds it where the request is answered first.
    """

    charges: TenantCharges
    identity: Identity
    tokens: int
    budgets: TenantBudgets | None = None
    hold: Hold | None = None
    background: BackgroundHold | None = None
    lowers: bool = False

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The rest of the tenant's rates and budgets, for the response; empty where it has none."""
        return list(_left(self.charges.left(self.identity.entitlement)))

    def settle(self, context: RequestContext, ending: Ending) -> None:
        """The request is over: charge what it has used, nothing where the engine never had it, or refused it.

        ``ending`` is that of its response. A request that ran and reported nothing, since it was cut off or runs on
        without its request, is charged as estimated.
        """
        permit = context.permit
        usage = None if permit is None else permit.usage
        invalid = permit is not None and permit.ending is Ending.INVALID
        runs_on = context.asked.detached and ending not in (Ending.INVALID, Ending.FAILED)
        ran = runs_on or (permit is not None and permit.dispatched_s is not None and not invalid)
        used = usage.prompt_tokens + usage.output_tokens if usage is not None else self.tokens if ran else 0
        self.charges.rates.settle(self.identity.tenant, self.tokens, used, loop_time_s())
        if self.background is not None:
            self.background.answered(runs_on=runs_on)
        elif self.budgets is not None and self.hold is not None:
            _release_with(permit, partial(self.budgets.release, self.hold))


def _release_with(permit: Permit | None, release: Callable[[], None]) -> None:
    """Release a hold once the record of its request is made; at once where there will be none."""
    account = None if permit is None else permit.account
    if account is None or account.closed:
        release()
    else:
        account.on_closed = release


def _over_budget(found: Finding, left: Allowances) -> BadRequest:
    wait_s, owner = found.retry_after_s, found.owner.partition(" ")[0]
    bound = f"{found.limit:,.15g} requests in progress" if found.bound == "concurrency" else _words(found)
    if wait_s is None:
        text, headers = f"This request alone is more than the {bound} of its {owner}.", [_NO_RETRY]
    else:
        text = (
            f"The {owner} has used its {bound}, or requests in progress reserve the rest. Try again in {ceil(wait_s)} "
            "s."
        )
        headers = [*([_NO_RETRY] if wait_s > _RETRIED_S else []), (b"retry-after", str(ceil(wait_s)).encode())]
    headers = [(b"x-headway-reason", b"budget"), *_left(left), *headers]
    return BadRequest(HTTPStatus.TOO_MANY_REQUESTS, text, "budget_exceeded", headers)


def _words(found: Finding) -> str:
    unit, _, span = found.bound.partition("_per_")
    return f"{found.limit:,.15g} {unit.replace('_', ' ')} of this {span}"


def _least(left: Allowances, states: Iterable[BudgetState]) -> Allowances:
    """Of each unit the allowance with the least left."""
    found = {"requests": [left.requests], "tokens": [left.tokens]}
    now_s = time.time()
    for state in states:
        unit = state.bound.partition("_per_")[0]
        if unit in found and state.resets_s is not None:
            remaining = max(0.0, state.limit - state.used - state.held)
            found[unit].append(Allowance(state.limit, remaining, max(0.0, state.resets_s - now_s)))
    least = {unit: min(filter(None, these), key=attrgetter("remaining"), default=None) for unit, these in found.items()}
    return Allowances(least["requests"], least["tokens"])


def _over_rate(refusal: RateRefusal) -> BadRequest:
    rate, wait_s = refusal.rate, refusal.retry_after_s
    allowance = getattr(refusal.left, rate.value)
    headers = [(b"x-headway-reason", b"rate_limit"), *_left(refusal.left)]
    if wait_s is None:
        text = f"This request alone is more than the {allowance.limit:g} {rate} a minute of its tenant."
        headers.append(_NO_RETRY)
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
