"""The retry budget of each tenant: how many refused retries are answered with a time for another retry.

Under overload refused requests are sent again, and are refused again: clients with r retries send up to 1 + r times the
load, while the server has the least capacity for refusals. The budget bounds this. A refused first try may always be
retried; a refused retry may be retried again while

    invited + 1 <= RATIO * first tries + LEAST

and its refusal forbids another retry otherwise. Both counts decay exponentially over ``WINDOW_S``. So, as far as
clients obey, the arrivals of a tenant are at most (2 + RATIO) times its first tries, plus LEAST in a window, whatever
number of retries its clients are set to. A retry that the server can take is never refused for the budget.

Envoy's retry budgets have the same two numbers (20 % of the active requests, and at least 3), Finagle's ``RetryBudget``
the same form over ten seconds (20 % of the requests, and a few a second); gRPC's retry throttling (proposal A6) counts
tokens in place of a window. All three limit the client; this budget limits the retries that the server allows.

The cost of one call is O(1). Known weak spot: only the last ``TENANTS`` tenants are kept, so a client that divides
its requests between more names has LEAST for each.
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
#: The time in which the weight of a request falls by the factor e.
WINDOW_S: Final = 10.0
#: The most tenants that are kept.
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
        """Count a first try, admitted or not."""
        self._counts(tenant, now_s).first_tries += 1.0

    def spend(self, tenant: str, now_s: float) -> bool:
        """Whether a refused retry may be sent again; an allowed one is counted."""
        counts = self._counts(tenant, now_s)
        if counts.invited + 1.0 > RATIO * counts.first_tries + LEAST:
            return False
        counts.invited += 1.0
        return True

    def _counts(self, tenant: str, now_s: float) -> _Counts:
        """The counts of a tenant with their present weights; a new tenant may replace the least recent one."""
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
