"""Retries: which requests are retries, and whether a refused one may be sent again.

    x-stainless-retry-count   by the SDKs of OpenAI and Anthropic: 0 for the first try
    x-envoy-attempt-count     by Envoy: 1 for the first try

The count is sent by the client and not verified. A client that omits it gains nothing over other first tries: it is
refused like them, with the same ``Retry-After``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from headway.admission import RequestContext, loop_time_s
from headway.api_errors import BadRequest
from headway_policies import Reason
from headway_policies.diagnosis.failures import FOR_LOAD, WHILE_RUNNING
from headway_policies.entitlement.retry_budget import RetryBudget

#: The count that each header has on a first try.
FIRST_TRY: Final[Mapping[str, int]] = {"x-stainless-retry-count": 0, "x-envoy-attempt-count": 1}

#: Refusals of an overload. With the other refusals this server cannot serve now, and another server may.
OVERLOADED: Final = frozenset(FOR_LOAD).difference(WHILE_RUNNING)
_MAX_DIGITS = 9


def is_retry(headers: Mapping[str, str]) -> bool:
    """Whether a header counts an earlier try; a value that is no number is ignored."""
    for name, first in FIRST_TRY.items():
        value = headers.get(name)
        if value is not None and value.isdecimal() and len(value) <= _MAX_DIGITS and int(value) > first:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Retries:
    """The retries of all requests. ``ended`` counts the refusals that forbid another retry, by class."""

    budget: RetryBudget = field(default_factory=RetryBudget)
    ended: Counter[str] = field(default_factory=Counter)
    now_s: Callable[[], float] = loop_time_s

    def read(self, headers: Mapping[str, str], context: RequestContext) -> bool:
        """Whether this request is a retry; a first try counts once it asks for a permit."""
        if is_retry(headers):
            return True
        context.on_arrival = lambda: self.budget.first_try(context.tenant, self.now_s())
        return False

    def last(self, context: RequestContext, reason: Reason, status: HTTPStatus) -> BadRequest | None:
        """The refusal that forbids another retry, in place of one for this reason; None where another is allowed.

        An allowed retry is charged to its tenant's budget.
        """
        if reason not in OVERLOADED or self.budget.spend(context.tenant, self.now_s()):
            return None
        class_name = context.class_name or ""
        self.ended[class_name] += 1
        text = (
            "The server is overloaded, and too many requests of this tenant are retries already. "
            f"Do not retry this one, send fewer requests. ({reason}, retry_budget)"
        )
        headers = [(b"x-headway-reason", b"retry_budget"), (b"x-headway-class", class_name.encode())]
        return BadRequest(status, text, "retry_budget", headers)
