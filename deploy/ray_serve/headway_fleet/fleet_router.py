"""Ray Serve's request router: the replica that the routing policy of Headway ranks first.

A request (``Replica.forward``) is not sent to the replicas that have been ``tried``. Where all have been it waits, with
Serve's backoff, until there is another one; the front bounds that time.
"""

from __future__ import annotations

import time
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from headway_policies.routing import Demand, Report, ReportedInstances

_BYTES_PER_TOKEN = 4
_SILENT_PERIODS = 10


class FleetRouter(RequestRouter):  # type: ignore[misc]  # Ray is not installed where types are checked
    """Serve makes one for each process that sends to the replicas, with the settings of ``request_router_kwargs``."""

    def initialize_state(self, **settings: Any) -> None:
        """Called by Serve once, before anything else."""
        self._view = ReportedInstances(silent_s=_SILENT_PERIODS * float(settings.get("period_s", 1.0)))

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Replicas have come, gone or reported."""
        self._view.keep(replica.replica_id.unique_id for replica in replicas)
        for replica in replicas:
            if stats := replica.routing_stats:
                self._view.instance(replica.replica_id.unique_id).report(Report(**stats), time.monotonic())
        super().update_replicas(replicas)

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Ranks of one replica each, so that Serve compares none of them by its own count."""
        if pending_request is not None:  # else Serve asks again at once, and its event loop does nothing else
            pending_request.routing_context.should_backoff = True
        request, tried = pending_request.args if pending_request is not None else (None, frozenset[str]())
        tokens = 0 if request is None else len(request.body) // _BYTES_PER_TOKEN
        by_name = {replica.replica_id.unique_id: replica for replica in candidate_replicas}
        untried = [name for name in by_name if name not in tried]
        names = self._view.rank(untried, Demand(tokens, tokens), time.monotonic())
        return [[by_name[name]] for name in names]

    def on_send_request(self, replica_id: ReplicaID) -> None:
        """Serve sends a request to a replica."""
        super().on_send_request(replica_id)
        self._view.instance(replica_id.unique_id).sent(time.monotonic())

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """A request that was sent has ended."""
        super().on_request_completed(replica_id, internal_request_id)
        self._view.ended(replica_id.unique_id)

    def on_replica_actor_unavailable(self, replica_id: ReplicaID) -> None:
        """A replica did not answer."""
        super().on_replica_actor_unavailable(replica_id)
        self._view.instance(replica_id.unique_id).unreachable(time.monotonic())
