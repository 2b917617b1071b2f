"""Ray Serve's request router: the replica that the routing policy of Headway ranks first.

A request that names replicas in ``Forwarded.tried`` is not sent to these. Where all are tried it waits, with Serve's
backoff, until there is another one; the front bounds that time.
"""

from __future__ import annotations

import time
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from headway_fleet.load_view import LoadView
from headway_fleet.messages import Forwarded
from headway_fleet.replica_health import Report
from headway_policies.routing import Demand

_BYTES_PER_TOKEN = 4
_SILENT_PERIODS = 10


class FleetRouter(RequestRouter):  # type: ignore[misc]  # Ray is not installed where types are checked
    """Serve makes one for each process that sends to the replicas, with the settings of ``request_router_kwargs``."""

    def initialize_state(self, **settings: Any) -> None:
        """Called by Serve once, before anything else."""
        self._view = LoadView(silent_s=_SILENT_PERIODS * float(settings.get("period_s", 1.0)))

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Replicas have come, gone or reported."""
        self._view.keep(one.replica_id.unique_id for one in replicas)
        for one in replicas:
            if stats := one.routing_stats:
                self._view.report(one.replica_id.unique_id, Report(**stats), time.monotonic())
        super().update_replicas(replicas)

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Ranks of one replica each, so that Serve compares none of them by its own count."""
        if pending_request is not None:  # else Serve asks again at once, and its event loop does nothing else
            pending_request.routing_context.should_backoff = True
        request = pending_request.args[0] if pending_request is not None and pending_request.args else None
        forwarded = request if isinstance(request, Forwarded) else None
        tried = frozenset() if forwarded is None else forwarded.tried
        by_name = {one.replica_id.unique_id: one for one in candidate_replicas}
        tokens = 0 if forwarded is None else len(forwarded.body) // _BYTES_PER_TOKEN
        untried = [name for name in by_name if name not in tried]
        names = self._view.rank(untried, Demand(tokens, tokens), time.monotonic())
        return [[by_name[name]] for name in names]

    def on_send_request(self, replica_id: ReplicaID) -> None:
        """Serve sends a request to a replica."""
        super().on_send_request(replica_id)
        self._view.sent(replica_id.unique_id, time.monotonic())

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """A request that was sent has ended."""
        super().on_request_completed(replica_id, internal_request_id)
        self._view.ended(replica_id.unique_id)

    def on_replica_actor_unavailable(self, replica_id: ReplicaID) -> None:
        """A replica did not answer."""
        super().on_replica_actor_unavailable(replica_id)
        self._view.unreachable(replica_id.unique_id, time.monotonic())
