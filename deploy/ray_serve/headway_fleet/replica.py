"""A replica: one server with Headway, and what Ray Serve asks of it.

start      the constructor returns when the server is warm: Serve sends nothing before
health     the process of the server answers; an engine that is away is replaced by the server itself
requests   forwarded to the server, the response piece by piece
stop       Serve takes it out of all routers and waits, ``drain_s`` at most, until what waits and runs here has
           ended; then the server is drained by its admin API and ended
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ray import serve

from headway_fleet.exchange import ServerClient
from headway_fleet.listing import Listing
from headway_fleet.messages import Accepted, Forwarded, Message
from headway_fleet.reading import Readings
from headway_fleet.replica_health import Report
from headway_fleet.server_process import ServerProcess
from headway_fleet.settings import FleetSettings
from headway_fleet.signals import figures


class Replica:
    """Serve makes it in the event loop of its process, and calls all else there, too."""

    async def __init__(self, given: Mapping[str, Any]) -> None:  # type: ignore[misc]  # Serve awaits it
        settings = FleetSettings.read(given)
        self.name = serve.get_replica_context().replica_id.unique_id
        folder = None if settings.folder is None else Path(settings.folder)
        self._listing = None if folder is None else Listing(folder, self.name)
        log_path = None if folder is None else folder / f"{self.name}.log"
        self._server = ServerProcess(settings.serve, settings.environment, settings.host, log_path)
        self._readings = Readings(self._server.metrics, fresh_s=settings.period_s / 2)
        self._number = 0
        await self._server.start(settings.start_s)
        self._client = ServerClient()
        if self._listing is not None:
            self._listing.put(self._server.address)

    async def forward(self, request: Forwarded) -> AsyncIterator[Message]:
        """The server's response to a request, in the messages that ``messages`` lists."""
        yield Accepted(self.name)
        async with aclosing(self._client.exchange(self._server.url, request)) as messages:
            async for message in messages:
                yield message

    async def check_health(self) -> None:
        """Asked by Serve, which replaces a replica that raises an error three times in a row."""
        if not await self._server.healthy():
            raise RuntimeError(f"the server of replica {self.name} does not answer")

    async def record_routing_stats(self) -> dict[str, Any]:
        """A ``Report``, asked by Serve every ``period_s``, and passed on to the routers."""
        reading = await self._readings.newest(time.monotonic())
        self._number += 1
        report = Report(
            number=self._number,
            ready=reading.ready,
            seats=reading.seats,
            load=reading.running + reading.waiting,
            kv_use=reading.kv_use,
            answered=self._client.answered,
            failed=self._client.failed,
            tokens=reading.tokens,
            stale=reading.stale,
        )
        return asdict(report)

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Asked by Serve every few seconds, and passed on to the scaling policy."""
        return figures(await self._readings.newest(time.monotonic()))

    async def __del__(self) -> None:
        """Called by Serve when nothing waits or runs here any more, before it ends the process."""
        await self._server.drain("the replica is removed")
        await self._client.close()
        await self._server.end()
        if self._listing is not None:
            self._listing.remove()
