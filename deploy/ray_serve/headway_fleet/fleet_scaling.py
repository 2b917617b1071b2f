"""Ray Serve's autoscaling policy: the number of replicas that the scaling policy of Headway asks for.

Each server says its demand, by load, arrivals, queues and objectives (``figures``). The policy holds and bounds their
sum, beside the mean use of their KV caches.
"""

from __future__ import annotations

import logging
from typing import Any

from headway_policies.scaling import Desired, DesiredInstances, Scaling, ScalingSignals

log = logging.getLogger("ray.serve")


class FleetScaling:
    """Called by Serve's controller several times a second with its ``AutoscalingContext``.

    Serve keeps one for as long as the controller lives. A new controller begins with the replicas that there are.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = Scaling(**settings)
        self._policy: DesiredInstances | None = None
        self._said: Desired | None = None

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """How many replicas there should be, and no state for Serve to keep."""
        demands, kv_uses = (
            [series[-1].value for series in (context.raw_metrics or {}).get(name, {}).values() if series]
            for name in ("demand", "kv_use")
        )
        seen = ScalingSignals(
            ready=context.current_num_replicas,
            offered=sum(demands),
            capacity=1.0,
            kv_use=sum(kv_uses) / len(kv_uses) if kv_uses else None,
        )
        if self._policy is None:
            running = max(context.current_num_replicas, context.target_num_replicas)
            self._policy = DesiredInstances(self._settings, running=running)
        desired = self._policy.update(seen, context.current_time)
        if self._said is None or desired.instances != self._said.instances:
            log.info("headway: %d replicas, because of %s", desired.instances, desired.why)
            self._said = desired
        return desired.instances, {}
