"""The retry budget of each tenant: how often a retry that was refused may be invited to come again.

Under overload a refused request comes back, and those of each round that are refused once more come back again: clients
with r retries send up to 1 + r times the load, just when the server has the least to spare for refusals. The budget
ends the rounds. A first try that is refused may always come back; a retry that is refused may, while

    invited + 1 <= RATIO * first tries + LEAST

and is otherwise told that it is the last. Both counts are forgotten exponentially over ``WINDOW_S``. So, as far as
clients obey, the arrivals of a tenant are at most (2 + RATIO) times its first tries, plus LEAST in a window, whatever
number of retries its clients are set to. A retry that the server can take is never refused for the budget.

Envoy's retry budgets have the same two numbers (20 % of the active requests, and at least 3), Finagle's ``RetryBudget``
the same form over ten seconds (20 % of the requests, and a few a second); gRPC's retry throttling (proposal A6) counts
tokens in place of a window. All three limit the client; this one limits what the server invites.

The cost of one call is O(1). Known weak spot: only the ``TENANTS`` last ones are remembered, so a client that spreads
its requests over more names than that has LEAST for each.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from headway_policies.prediction import share_left

#: Retries invited for each first try.
RATIO: Final = 0.2
#: Retries invited in a window in any case, so that a tenant with few requests may retry at all.
LEAST: Final = 3.0
#: Over this time the weight of a request falls by e.
WINDOW_S: Final = 10.0
#: Tenants that are remembered.
TENANTS: Final = 4096


@dataclass(slots=True)
class _Counts:
    """First tries and invited retries of one tenant, as weighted at ``at_s``."""

    first_tries: float
    invited: float
    at_s: float


class RetryBudget:
    """The budgets of all tenants, by name."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, _Counts] = OrderedDict()

    def first_try(self, tenant: str, now_s: float) -> None:
        """A request asked to be admitted that is no retry, whatever becomes of it."""
        self._counts(tenant, now_s).first_tries += 1.0

    def spend(self, tenant: str, now_s: float) -> bool:
        """Whether a retry that was refused may be invited to come again; it counts where it may."""
        counts = self._counts(tenant, now_s)
        if counts.invited + 1.0 > RATIO * counts.first_tries + LEAST:
            return False
        counts.invited += 1.0
        return True

    def _counts(self, tenant: str, now_s: float) -> _Counts:
        """The counts of a tenant as they weigh now; a new tenant may push out the least recent one."""
        counts = self._tenants.get(tenant)
        if counts is None:
            counts = self._tenants[tenant] = _Counts(0.0, 0.0, now_s)
            if len(self._tenants) > TENANTS:
                self._tenants.popitem(last=False)
            return counts
        self._tenants.move_to_end(tenant)
        left = share_left(now_s - counts.at_s, WINDOW_S)
        counts.first_tries *= left
        counts.invited *= left
        counts.at_s = now_s
        return counts
