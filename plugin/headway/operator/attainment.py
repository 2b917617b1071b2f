"""Whether a request met the objectives of its class.

A request that was refused, ran out of time or failed has met nothing: its client has no answer. One that its client
cancelled, or that was invalid, says nothing of the server and is not judged. The time between tokens is judged where a
completed request has one.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway.admission import EndedRequest
from headway_policies import Outcome
from headway_policies.request import PriorityClass

FIRST_TOKEN, INTER_TOKEN, BOTH = "first_token", "inter_token", "both"
OBJECTIVES = (FIRST_TOKEN, INTER_TOKEN, BOTH)

_NOT_JUDGED = frozenset({Outcome.CANCELLED_QUEUED, Outcome.CANCELLED_RUNNING, Outcome.REJECTED_INVALID})


def objectives_s(terms: PriorityClass | None) -> dict[str, float]:
    """The objectives that a class states, in seconds."""
    if terms is None:
        return {}
    stated = {FIRST_TOKEN: terms.ttft_slo_s, INTER_TOKEN: terms.inter_token_slo_ms and terms.inter_token_slo_ms / 1000}
    return {name: seconds for name, seconds in stated.items() if seconds is not None}


def judged(ended: EndedRequest) -> Mapping[str, bool]:
    """Each objective that the request is judged by, and whether it met it; ``BOTH`` is all of them together."""
    terms, completed = ended.terms, ended.outcome is Outcome.COMPLETED
    if terms is None or ended.outcome in _NOT_JUDGED:
        return {}
    first_s, between_ms, found = terms.ttft_slo_s, terms.inter_token_slo_ms, {}
    if first_s is not None:
        delay_s = ended.first_token_s
        found[FIRST_TOKEN] = completed and delay_s is not None and delay_s <= first_s
    if between_ms is not None and completed and ended.pace_s > 0:
        found[INTER_TOKEN] = 1000 * ended.pace_s <= between_ms
    if first_s is not None or between_ms is not None:
        found[BOTH] = completed and all(found.values())
    return found
