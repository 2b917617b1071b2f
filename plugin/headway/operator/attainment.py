"""Whether a request met the objectives of its class.

A request that was refused, ran out of time or failed has met nothing: its client has no answer. A request that its
client cancelled, or that was invalid, says nothing of the server and is not judged. The time between tokens is judged
where a completed request has one. The numbers are those of its class for its prompt on the engine as it was when the
request ended; an objective that is relative to an engine not known yet judges nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway.admission import EndedRequest
from headway.api.schema import ClassObjectives
from headway_policies import Outcome
from headway_policies.limits import Resolved

FIRST_TOKEN, INTER_TOKEN, BOTH = "first_token", "inter_token", "both"
OBJECTIVES = (FIRST_TOKEN, INTER_TOKEN, BOTH)

_NOT_JUDGED = frozenset({Outcome.CANCELLED_QUEUED, Outcome.CANCELLED_RUNNING, Outcome.REJECTED_INVALID})


def objectives_s(found: Resolved | ClassObjectives) -> dict[str, float]:
    """The objectives of a class that are known, in seconds."""
    known = {FIRST_TOKEN: found.ttft_s, INTER_TOKEN: found.inter_token_s}
    return {name: seconds for name, seconds in known.items() if seconds is not None}


def judged(ended: EndedRequest) -> Mapping[str, bool]:
    """Each objective that the request is judged by, and whether it met it; ``BOTH`` is all of them together."""
    completed = ended.outcome is Outcome.COMPLETED
    if ended.outcome in _NOT_JUDGED:
        return {}
    first_s, between_s, found = ended.ttft_slo_s, ended.inter_token_slo_s, dict[str, bool]()
    if first_s is not None:
        delay_s = ended.first_token_s
        found[FIRST_TOKEN] = completed and delay_s is not None and delay_s <= first_s
    if between_s is not None and completed and ended.pace_s > 0:
        found[INTER_TOKEN] = ended.pace_s <= between_s
    if first_s is not None or between_s is not None:
        found[BOTH] = completed and all(found.values())
    return found
