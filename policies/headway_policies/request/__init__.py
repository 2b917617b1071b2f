"""The policies' view of a request: its ticket, the terms of its class, and the closed lists of outcomes.

Nothing of the content. All other parts of the package build on this one.
"""

from headway_policies.request.classes import PriorityClass
from headway_policies.request.objective import InterTokenObjective, Relative, least_of, relative, resolve, shortest
from headway_policies.request.outcome import LEFT, REFUSED, Decision, Ending, Outcome, Reason
from headway_policies.request.prefix import BLOCK_TOKENS, PREFIX_TOKENS
from headway_policies.request.ticket import DEFAULT_MAX_TOKENS, NO_TIMEOUTS, Ticket, Timeouts, Usage, shorter

__all__ = [
    "BLOCK_TOKENS",
    "DEFAULT_MAX_TOKENS",
    "LEFT",
    "NO_TIMEOUTS",
    "PREFIX_TOKENS",
    "REFUSED",
    "Decision",
    "Ending",
    "InterTokenObjective",
    "Outcome",
    "PriorityClass",
    "Reason",
    "Relative",
    "Ticket",
    "Timeouts",
    "Usage",
    "least_of",
    "relative",
    "resolve",
    "shorter",
    "shortest",
]
