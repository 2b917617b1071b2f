"""The scale signal of one server: how many times its seats the demand would fill.

    ratio = max(demand, seats taken + seats waiting) / limit

The demand is Little's law over about the last half minute, refused requests included, so the ratio goes beyond 1 in an
overload although no more than the limit can be taken; what is here at this moment follows a burst at once. 1 is full:
an autoscaler that keeps it at 0.7 runs ceil(replicas * ratio / 0.7) replicas, which is the rule of Kubernetes' HPA.

Known weak spots: a client that retries a refusal counts each time; an engine that is slow from too many sequences holds
its seats longer, which counts as demand; a limit that memory has lowered counts as less capacity.
"""

from __future__ import annotations


def scale_ratio(demand_seats: float, taken: int, waiting: int, limit: int) -> float:
    """The seats that are wanted for each seat of the limit; 0 on an idle server."""
    return max(demand_seats, float(taken + waiting)) / max(1, limit)
