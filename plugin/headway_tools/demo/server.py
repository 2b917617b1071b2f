"""Calls to the two running servers, off the event loop: the clients underneath block."""

from __future__ import annotations

import asyncio

import requests

from headway.api import AdminClient
from headway_tools.console import fetch_metrics
from headway_tools.demo.options import Options
from headway_tools.demo.overload.without import EngineSeen, engine_seen
from headway_tools.demo.summary import PresetSeen
from headway_tools.load.scrape import Counts, read

_TIMEOUT_S = 5.0
_IDLE_WITHIN_S = 5.0
_POLL_S = 0.2


class Servers:
    """The server and the dashboard of one demo."""

    def __init__(self, options: Options, token: str) -> None:
        self._options = options
        self._token = token
        self._admin = AdminClient(options.server_url, token)

    async def server_ready(self) -> bool:
        """Whether the server takes traffic."""
        return await self._answers(f"{self._options.server_url}/headway/readyz")

    async def dashboard_healthy(self) -> bool:
        """Whether the dashboard answers its health URL."""
        return await self._answers(f"{self._options.dashboard_url}/_stcore/health")

    async def counts(self) -> Counts:
        """A scrape of ``/metrics``, which may be closed. Raises ServerUnreachableError."""
        return await asyncio.to_thread(fetch_metrics, self._options.server_url, read, self._token)

    async def preset_seen(self) -> PresetSeen:
        """The preset in force and its limit."""
        status = await asyncio.to_thread(self._admin.status)
        return PresetSeen(status.preset.name, status.preset.revision, status.limit.live)

    async def engine_seen(self) -> EngineSeen:
        """The engine as the server has measured it, and the objectives of the classes on it."""
        return engine_seen(await asyncio.to_thread(self._admin.status))

    async def switch(self) -> str:
        """Switch to a bundled preset with another number of seats, through the admin API; returns its name."""
        return await asyncio.to_thread(self._switch)

    def _switch(self) -> str:
        current = self._admin.preset()
        target = "throughput" if current.name != "throughput" else "latency"
        switched = self._admin.switch(
            target, revision=current.revision, reason="halfway through the demo", actor="headway demo"
        )
        return switched.name

    async def _answers(self, url: str) -> bool:
        response = await asyncio.to_thread(_get, url)
        return response is not None and response.ok


async def counts_when_idle(servers: Servers) -> Counts:
    """The server's counts once nothing waits or runs; whatever they are when that takes too long."""
    clock = asyncio.get_running_loop().time
    until_s = clock() + _IDLE_WITHIN_S
    counts = await servers.counts()
    while counts.open and clock() < until_s:
        await asyncio.sleep(_POLL_S)
        counts = await servers.counts()
    return counts


def _get(url: str) -> requests.Response | None:
    """GET from this machine, past any proxy; None without an answer."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            return session.get(url, timeout=_TIMEOUT_S)
        except requests.RequestException:
            return None
