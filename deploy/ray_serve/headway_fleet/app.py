"""The application: a front before the replicas, for ``serve.run`` and for Serve's configuration files."""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig

from headway_fleet.fleet_scaling import FleetScaling
from headway_fleet.front import Front
from headway_fleet.replica import Replica
from headway_fleet.settings import FleetSettings
from headway_policies.scaling import Scaling

#: The queue is that of the servers, with their bounds: Serve passes on what comes.
_MOST_AT_ONCE = 10_000
_MOST_WITHOUT_REPLICA = 1_000
_LOOK_BACK_S = 15.0
_HEALTH_PERIOD_S = 2.0


def build(given: dict[str, Any]) -> Application:
    """The application with these settings (``FleetSettings``). Raises ValueError for one that is wrong."""
    settings = FleetSettings.read(given)
    scaling = Scaling(**settings.scaling)
    servers = serve.deployment(Replica, name="Server").options(
        ray_actor_options={"num_cpus": 1, **settings.resources},
        max_ongoing_requests=_MOST_AT_ONCE,
        max_queued_requests=_MOST_WITHOUT_REPLICA,
        health_check_period_s=_HEALTH_PERIOD_S,
        health_check_timeout_s=5 * _HEALTH_PERIOD_S,
        graceful_shutdown_wait_loop_s=0.5,
        graceful_shutdown_timeout_s=settings.drain_s,
        max_constructor_retry_count=3,
        max_surge_percent=100,  # a new replica is warm before the old one goes
        request_router_config=RequestRouterConfig(
            request_router_class="headway_fleet.fleet_router.FleetRouter",
            request_router_kwargs={"period_s": settings.period_s},
            request_routing_stats_period_s=settings.period_s,
        ),
        autoscaling_config=AutoscalingConfig(
            min_replicas=scaling.minimum,
            max_replicas=scaling.maximum,
            upscale_delay_s=0.0,  # the policy itself goes up at once and down slowly
            downscale_delay_s=0.0,
            look_back_period_s=_LOOK_BACK_S,
            policy=AutoscalingPolicy(policy_function=FleetScaling, policy_kwargs=dict(settings.scaling)),
        ),
    )
    front = serve.deployment(Front, name="Front").options(
        num_replicas=settings.fronts,
        ray_actor_options={"num_cpus": 0.1},
        max_ongoing_requests=_MOST_AT_ONCE,
        graceful_shutdown_timeout_s=settings.drain_s,
    )
    return front.bind(servers.bind(given), settings.route_s)
