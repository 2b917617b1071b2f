"""The heartbeat: asks each instance every second whether it is ready, and for its metrics.

    answer                                       new requests     its requests without output
    ready                                        yes              stay
    not ready (drains, warms up, has no engine)  no               stay: it may finish them
    no answer within two seconds                 yes              stay
    no answer for ``health.SILENT_S``            no               stay
    no answer for ``health.LOST_S``              no               are tried on another instance
    no connection, or it broke                   no               are tried on another instance

A Headway instance answers ``/headway/readyz``, plain vLLM ``/health``. Each instance is asked by itself, so that a slow
one delays no other. How long a silence may last is decided by ``headway_policies.routing.health`` alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import aiohttp

from headway.admission import loop_time_s
from headway.router.engine import InstancesEngine
from headway.router.instance import InstanceLink
from headway.router.reading import read, read_models
from headway_policies.fallback import BreakerState

log = logging.getLogger(__name__)

EVERY_S: Final = 1.0
_WITHIN_S: Final = 2.0
_READY, _HEALTH, _METRICS, _MODELS = "/headway/readyz", "/health", "/metrics", "/v1/models"


class Heartbeat:
    """Asks all instances while ``run`` runs."""

    def __init__(self, engine: InstancesEngine) -> None:
        self._engine = engine
        self._plain: set[str] = set()
        self._watched: dict[str, InstanceLink] = {}

    async def once(self) -> None:
        """Ask every instance once."""
        links = list(self._engine.pool.links.values())
        for ask in (self._ask, self._read):
            await asyncio.gather(*(ask(link) for link in links))
        self._engine.report()

    async def run(self) -> None:
        """Ask for as long as the router runs."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                for name, link in self._engine.pool.links.items():
                    if self._watched.get(name) is not link:
                        self._watched[name] = link
                        tasks.create_task(self._watch(link, self._ask))
                        tasks.create_task(self._watch(link, self._read))
                await asyncio.sleep(EVERY_S)
                self._engine.report()

    async def _watch(self, link: InstanceLink, ask: Callable[[InstanceLink], Awaitable[None]]) -> None:
        """Ask one instance every second, until it has left or another one has its name.

        Health and metrics are asked for each by itself: metrics that come late are no silence.
        """
        asked_s, name, links = loop_time_s(), link.address.name, self._engine.pool.links
        while links.get(name) is link:
            await asyncio.sleep(max(0.0, asked_s + EVERY_S - loop_time_s()))
            asked_s = loop_time_s()
            try:
                await ask(link)
            except Exception:
                log.exception("instance %s: its heartbeat failed", name)
                self._engine.pool.late(link)
        if self._watched.get(name) is link:
            del self._watched[name]
            self._plain.discard(name)

    async def _ask(self, link: InstanceLink) -> None:
        """Its health."""
        pool = self._engine.pool
        try:
            ready = await self._ready(link)
        except TimeoutError:
            pool.late(link)
        except (aiohttp.ClientError, OSError):
            self._plain.discard(link.address.name)  # what comes back there may be another server
            link.model = None
            pool.lost(link)
        else:
            if ready:
                pool.heard(link)
            else:
                pool.unready(link)

    async def _read(self, link: InstanceLink) -> None:
        """Its metrics, also of one that is not ready while something runs there: they show its progress.

        Without an answer the load is the one of before; what that means is for its health to say.
        """
        if link.idle and link.health.state(loop_time_s()) is BreakerState.OPEN:
            return
        sent_before, link.asked_s = link.sent, loop_time_s()
        with suppress(aiohttp.ClientError, OSError):
            try:
                status, text = await self._engine.client.get(link.address, _METRICS, _WITHIN_S)
            except ValueError as error:
                log.warning("instance %s: %s", link.address.name, error)
                return
            if status == HTTPStatus.OK:
                self._engine.pool.read(link, read(text), sent_before)
            if link.model is None:
                await self._read_model(link)

    async def _read_model(self, link: InstanceLink) -> None:
        """What it serves, once; asked again where it does not answer, or does not let this server in."""
        try:
            status, text = await self._engine.client.get(link.address, _MODELS, _WITHIN_S)
        except ValueError:
            return
        if status == HTTPStatus.OK:
            link.model = read_models(text)

    async def _ready(self, link: InstanceLink) -> bool:
        client, name = self._engine.client, link.address.name
        if name not in self._plain:
            status, _ = await client.get(link.address, _READY, _WITHIN_S)
            if status not in (HTTPStatus.NOT_FOUND, HTTPStatus.UNAUTHORIZED):
                return status == HTTPStatus.OK
            self._plain.add(name)
        status, _ = await client.get(link.address, _HEALTH, _WITHIN_S)
        if status == HTTPStatus.NOT_FOUND:
            self._plain.discard(name)  # another server stands there now
        return status == HTTPStatus.OK
