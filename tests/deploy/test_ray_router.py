"""The request router with Ray Serve's own classes, without a cluster; skipped where Ray is not installed."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

pytest.importorskip("ray.serve", reason="Ray is not installed: make fleet-test installs it")

from headway_fleet.app import build
from headway_fleet.fleet_router import FleetRouter
from ray.serve._private.common import DeploymentHandleSource, DeploymentID, ReplicaID, RequestMetadata
from ray.serve.request_router import PendingRequest
from ray.serve.schema import ServeDeploySchema

from headway.router.forwarding.forwarded import Forwarded
from headway_policies.routing import Report

NUMBERS = itertools.count()
SERVER = DeploymentID("Server", "headway")


@dataclass
class Played:
    """A running replica, as far as the router asks it."""

    name: str
    load: int = 0
    routing_stats: dict[str, Any] = field(default_factory=dict)
    max_ongoing_requests: int = 1000
    node_id: str = "node"

    def __post_init__(self) -> None:
        self.replica_id = ReplicaID(self.name, SERVER)
        self.say(1)

    def say(self, number: int, *, ready: bool = True, answered: int = 0) -> None:
        """What its next report says."""
        report = Report(number, ready, seats=4, load=self.load, kv_use=0.0, answered=answered)
        self.routing_stats = asdict(report)

    async def get_queue_len(self, *, deadline_s: float) -> int:
        """The answer to a probe of Serve."""
        return self.load


@pytest.fixture
async def router() -> FleetRouter:
    """A router of Serve's, as its handle makes it."""
    one = FleetRouter(SERVER, DeploymentHandleSource.REPLICA, use_replica_queue_len_cache=True)
    one.initialize_state(period_s=1.0)
    return one


def pending(*tried: str) -> PendingRequest:
    """A request that waits for a replica."""
    request, number = Forwarded("POST", "/v1/completions", (), b"x" * 400), next(NUMBERS)
    return PendingRequest(
        args=[request, frozenset(tried)], kwargs={}, metadata=RequestMetadata(f"request {number}", str(number))
    )


async def names(router: FleetRouter, *tried: str) -> list[str]:
    """The replicas in the order of their ranks."""
    ranks = await router.choose_replicas(list(router.curr_replicas.values()), pending(*tried))
    return [rank.replica_id.unique_id for (rank,) in ranks]


async def test_serve_sends_to_the_replica_that_the_policy_ranks_first(router: FleetRouter) -> None:
    """Whatever Serve's own count says: each rank has one replica; a replica that is tried is in none."""
    full, free = Played("full", load=4), Played("free", load=1)
    router.update_replicas([full, free])
    router.on_new_queue_len_info(free.replica_id, 9)
    router.on_new_queue_len_info(full.replica_id, 0)
    chosen = await router._choose_replica_for_request(pending())
    assert chosen is free
    assert await names(router, "free") == ["full"]


async def test_a_request_that_all_replicas_have_had_waits_for_another_one(router: FleetRouter) -> None:
    """With Serve's backoff: without it the loop of the router would do nothing else, for any request."""
    one, two = Played("one"), Played("two")
    router.update_replicas([one])
    request = pending("one")
    assert await router.choose_replicas([one], request) == []
    assert request.routing_context.should_backoff
    waits = asyncio.ensure_future(router._choose_replica_for_request(request))
    assert await router._choose_replica_for_request(pending()) is one
    assert not waits.done()
    router.update_replicas([one, two])
    assert await waits is two


async def test_what_serve_sends_and_what_ends_is_counted(router: FleetRouter) -> None:
    """Once each, and a replica that has died is not asked any more."""
    one, two = Played("one"), Played("two")
    router.update_replicas([one, two])
    assert await names(router) == ["one", "two"]
    router.on_send_request(one.replica_id)
    assert (await names(router))[0] == "two"
    router.on_send_request(two.replica_id)
    router.on_request_completed(one.replica_id, "internal")
    assert (await names(router))[0] == "one"
    router.on_replica_actor_died(one.replica_id)
    assert await names(router) == ["two"]


async def test_a_server_that_is_not_ready_gets_nothing(router: FleetRouter) -> None:
    """By its report, or because Serve could not reach it."""
    one, two = Played("one"), Played("two", load=3)
    router.update_replicas([one, two])
    one.say(2, ready=False)
    router.update_replicas([one, two])
    assert await names(router) == ["two"]
    router.on_replica_actor_unavailable(two.replica_id)
    one.say(3)
    router.update_replicas([one])
    assert await names(router) == ["one"]


async def test_a_server_that_was_out_gets_one_request_until_its_answer_is_reported(
    router: FleetRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request that Serve sends is the probe; one that is answered leaves the next outage as short as the first."""
    now_s, one, two = itertools.count(1.0), Played("one"), Played("two", load=3)

    def report(number: int, **said: Any) -> None:
        second = next(now_s)
        monkeypatch.setattr("headway_fleet.fleet_router.time", SimpleNamespace(monotonic=lambda: second))
        one.say(number, **said)
        two.say(number)
        router.update_replicas([one, two])

    report(1)
    for number in range(2, 20, 3):
        report(number, ready=False)
        assert await names(router) == ["two"]
        report(number + 1)
        assert await names(router) == ["one", "two"]
        router.on_send_request(one.replica_id)
        assert await names(router) == ["two"]
        router.on_request_completed(one.replica_id, "internal")
        report(number + 2, answered=number)
        assert set(await names(router)) == {"one", "two"}


def test_the_application_is_built_from_its_settings() -> None:
    """The replicas have our router, our scaling policy, and a new one before the old one goes."""
    scaling = {"minimum": 2, "maximum": 5}
    built: Any = build({"serve": ["m"], "scaling": scaling, "drain_s": 90.0, "resources": {"num_gpus": 1}})
    (servers,) = [init_arg for init_arg in built._bound_deployment.init_args if hasattr(init_arg, "_bound_deployment")]
    config = servers._bound_deployment._deployment_config
    assert config.request_router_config.get_request_router_class() is FleetRouter
    assert (config.autoscaling_config.min_replicas, config.autoscaling_config.max_replicas) == (2, 5)
    policy = config.autoscaling_config.policy.get_policy()(**config.autoscaling_config.policy.policy_kwargs)
    context = SimpleNamespace(raw_metrics={}, current_num_replicas=1, current_time=0.0)
    assert policy(context)[0] == 2
    assert (config.max_surge_percent, config.graceful_shutdown_timeout_s) == (100, 90.0)
    with pytest.raises(ValueError, match="minimum"):
        build({"serve": ["m"], "scaling": {"minimum": 3, "maximum": 1}})


def test_the_configuration_file_is_one_of_ray_serve(root: Path) -> None:
    """Its fields exist, and what it imports builds an application from its arguments."""
    file = yaml.safe_load((root / "deploy" / "ray_serve" / "serve.yaml").read_text())
    schema = ServeDeploySchema.model_validate(file)
    (application,) = schema.applications
    assert application.import_path == f"{build.__module__}:{build.__name__}"
    assert build(application.args) is not None
