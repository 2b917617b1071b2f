"""Ray Serve's autoscaling policy: the number of replicas that the scaling policy of Headway asks for."""

from __future__ import annotations

import logging
from typing import Any

from headway_fleet.signals import signals
from headway_policies.scaling import Desired, DesiredInstances, Scaling

log = logging.getLogger("ray.serve")


class FleetScaling:
    """Called by Serve's controller several times a second with its ``AutoscalingContext``.

    Serve keeps one for as long as the controller lives. A new controller begins with the replicas that there are.
    """

    def __init__(self, **settings: Any) -> None:
        self._policy = DesiredInstances(Scaling(**settings))
        self._said: Desired | None = None

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """How many replicas there should be, and no state for Serve to keep."""
        history = {
            name: {str(replica): [one.value for one in series] for replica, series in sent.items()}
            for name, sent in (context.raw_metrics or {}).items()
        }
        desired = self._policy.update(signals(history, context.current_num_replicas), context.current_time)
        if self._said is None or desired.instances != self._said.instances:
            log.info("headway: %d replicas, because of %s", desired.instances, desired.why)
            self._said = desired
        return desired.instances, {}
