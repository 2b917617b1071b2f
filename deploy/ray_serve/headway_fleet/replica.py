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
from pathlib import Path
from typing import Any

import aiohttp
from multidict import CIMultiDict
from ray import serve
from yarl import URL

from headway_fleet.headers import of_server
from headway_fleet.listing import Listing
from headway_fleet.messages import Accepted, Forwarded, Head, Lost, Message
from headway_fleet.reading import Reading, read
from headway_fleet.server_process import ServerProcess
from headway_fleet.settings import FleetSettings
from headway_fleet.signals import figures

_CONNECT_S = 30.0


class Replica:
    """Serve makes it in the event loop of its process, and calls all else there, too."""

    async def __init__(self, given: Mapping[str, Any]) -> None:  # type: ignore[misc]  # Serve awaits it
        settings = FleetSettings.read(given)
        self.name = serve.get_replica_context().replica_id.unique_id
        folder = None if settings.folder is None else Path(settings.folder)
        self._listing = None if folder is None else Listing(folder, self.name)
        log_path = None if folder is None else folder / f"{self.name}.log"
        self._server = ServerProcess(settings.serve, settings.environment, settings.host, log_path)
        self._fresh_s = settings.period_s / 2
        self._reading, self._read_s, self._number = Reading(), 0.0, 0
        await self._server.start(settings.start_s)
        self._session = aiohttp.ClientSession(
            # A connection that is kept could be closed by the server at the moment when a request is sent on it.
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        if self._listing is not None:
            self._listing.put(self._server.address)

    async def forward(self, request: Forwarded) -> AsyncIterator[Message]:
        """The server's response to a request, in the messages that ``messages`` lists."""
        yield Accepted(self.name)
        try:
            async with self._session.request(
                request.method,
                URL(self._server.url + request.target, encoded=True),
                headers=CIMultiDict(request.headers),
                data=request.body or None,
                allow_redirects=False,
            ) as response:
                yield Head(response.status, of_server(response.headers.items()))
                async for piece in response.content.iter_any():
                    yield piece
        except aiohttp.ClientConnectorError as error:
            yield Lost(f"{type(error).__name__}: {error}", had_it=False)
        except (aiohttp.ClientError, ConnectionError) as error:
            yield Lost(f"{type(error).__name__}: {error}")

    async def check_health(self) -> None:
        """Asked by Serve, which replaces a replica that raises an error three times in a row."""
        if not await self._server.healthy():
            raise RuntimeError(f"the server of replica {self.name} does not answer")

    async def record_routing_stats(self) -> dict[str, Any]:
        """Asked by Serve every ``period_s``, and passed on to the routers."""
        reading = await self._read()
        self._number += 1
        return {
            "number": self._number,
            "ready": reading.ready,
            "seats": reading.seats,
            "load": reading.running + reading.waiting,
            "kv_use": reading.kv_use,
        }

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Asked by Serve every few seconds, and passed on to the scaling policy."""
        return figures(await self._read())

    async def _read(self) -> Reading:
        """The reading of this moment; that of a server that does not answer is not ready, and else as before."""
        if time.monotonic() - self._read_s >= self._fresh_s:
            self._read_s = time.monotonic()
            try:
                self._reading = read(await self._server.metrics())
            except (aiohttp.ClientError, TimeoutError):
                self._reading = Reading(seats=self._reading.seats)
        return self._reading

    async def __del__(self) -> None:
        """Called by Serve when nothing waits or runs here any more, before it ends the process."""
        await self._server.drain("the replica is removed")
        await self._session.close()
        await self._server.end()
        if self._listing is not None:
            self._listing.remove()
