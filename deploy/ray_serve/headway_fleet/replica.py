"""A replica: one server with Headway, and what Ray Serve asks of it.

start      the constructor returns when the server is warm: Serve sends nothing before
health     the process of the server answers; an engine that is away is replaced by the server itself
requests   forwarded to the server, the response piece by piece
stop       Serve takes it out of all routers and waits, ``drain_s`` at most, until what waits and runs here has
           ended; then the server is drained by its admin API and ended
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from ray import serve

from headway.router.forwarding.forwarded import Forwarded, Piece
from headway.vllm_adapter.process.parent_watch import watch_this_process
from headway_fleet.figures import Figures
from headway_fleet.forwarding import Lost
from headway_fleet.server import Server
from headway_fleet.settings import FleetSettings


class Replica:
    """Serve makes it in the event loop of its process, and calls all else there, too."""

    async def __init__(self, given: Mapping[str, Any]) -> None:  # type: ignore[misc]  # Serve awaits it
        watch_this_process()
        self.name = serve.get_replica_context().replica_id.unique_id
        self._server = Server(FleetSettings.read(given), self.name)
        self._figures, self._number = Figures(self._server.metrics), 0
        await self._server.start()
        await self._figures.read()

    async def forward(self, request: Forwarded, tried: frozenset[str]) -> AsyncIterator[str | Piece | Lost]:
        """The name of this replica, then the server's response. ``tried`` is for Serve's router (``fleet_router``)."""
        yield self.name
        async with aclosing(self._server.exchange(request)) as messages:
            async for message in messages:
                yield message

    async def check_health(self) -> None:
        """Asked by Serve, which replaces a replica that raises an error three times in a row."""
        if not await self._server.healthy():
            raise RuntimeError(f"the server of replica {self.name} does not answer")

    async def record_routing_stats(self) -> dict[str, Any]:
        """A ``headway_policies.routing.Report``, asked by Serve every ``period_s``, and passed on to the routers."""
        now = await self._figures.read()
        self._number += 1
        said = {name: now[name] for name in ("ready", "seats", "load", "kv_use", "kv_tokens", "tokens", "stale")}
        return {"number": self._number, "answered": self._server.answered, "failed": self._server.failed, **said}

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Asked by Serve every few seconds, and passed on to the scaling policy."""
        return self._figures.known

    async def __del__(self) -> None:
        """Called by Serve when nothing waits or runs here any more, before it ends the process."""
        await self._server.end()
