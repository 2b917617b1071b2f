"""The heartbeat: asks each instance every second whether it is ready, and for its metrics.

    answer                                       new requests     its requests without output
    ready                                        yes              stay
    not ready (drains, warms up, has no engine)  no               stay: it may finish them
    no answer within two seconds                 yes              stay
    no answer for ``health.SILENT_S``            no               stay
    no answer for ``health.LOST_S``              no               are tried on another instance
    no connection, or it broke                   no               are tried on another instance

The first of these that a server has is its health route: ``/headway/readyz`` (Headway), ``/health`` (most others), and
``/v1/models``. Each instance is asked by itself, so that a slow one delays no other. How long a silence may last is
decided by ``headway_policies.routing.health`` alone. The models of an instance are asked for before it gets a request,
so that its seats are known by then.
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
from headway.router.instances.instance import InstanceLink
from headway.router.instances.reading import InstanceReading, read, read_info, read_models
from headway_policies.fallback import BreakerState

log = logging.getLogger(__name__)

EVERY_S: Final = 1.0
_WITHIN_S: Final = 2.0
#: A load that was read so long ago says nothing of now.
_READ_COUNTS_S: Final = 15.0
_METRICS, _MODELS = "/metrics", "/v1/models"
_HEALTH: Final = ("/headway/readyz", "/health", _MODELS)
#: A server without such a route, or that refuses every token on it.
_NO_ROUTE: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.UNAUTHORIZED})


class Heartbeat:
    """The heartbeat of all instances, while ``run`` runs."""

    def __init__(self, engine: InstancesEngine) -> None:
        self._engine = engine
        self._health: dict[str, int] = {}  # the place of the health route of each
        self._shut_out: set[str] = set()
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
        """Ask an instance every second, until it has left or another one has its name.

        Health and metrics are asked for separately: metrics that come late are no silence.
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
            self._health.pop(name, None)
            self._shut_out.discard(name)

    async def _ask(self, link: InstanceLink) -> None:
        """Ask for the instance's health."""
        pool = self._engine.pool
        try:
            ready = await self._ready(link)
            await self._learn(link, ready=ready)
        except TimeoutError:
            pool.late(link)
        except (aiohttp.ClientError, OSError):
            self._health.pop(link.address.name, None)  # what comes back there may be another server
            link.model = None
            pool.lost(link)
        else:
            if ready:
                pool.heard(link)
            else:
                pool.unready(link)

    async def _learn(self, link: InstanceLink, *, ready: bool) -> None:
        """Learn the instance's model and its seats before it gets requests; this says nothing of its health."""
        if link.health.state(loop_time_s()) is not BreakerState.OPEN:
            return
        if link.model is None:
            with suppress(aiohttp.ClientError, OSError):
                async with asyncio.timeout(_WITHIN_S):
                    await self._read_model(link)
        if ready and not link.says_seats and (reading := await self._reading(link)) is not None:
            link.read(reading, sent_before=link.sent)

    async def _read(self, link: InstanceLink) -> None:
        """Read the instance's metrics, also while it is not ready and something runs there: they show its progress.

        Without an answer the load stays the last one for a while; its health decides what that means.
        """
        if link.idle and link.health.state(loop_time_s()) is BreakerState.OPEN:
            return
        sent_before, reading = link.sent, await self._reading(link)
        if reading is not None:
            self._engine.pool.read(link, reading, sent_before)
        elif not link.exclusive and loop_time_s() - link.read_s > _READ_COUNTS_S:
            self._engine.pool.unread(link)
        if link.model is None:
            with suppress(aiohttp.ClientError, OSError):
                await self._read_model(link)

    async def _reading(self, link: InstanceLink) -> InstanceReading | None:
        """The figures in the instance's metrics; None where it does not answer with them."""
        link.asked_s = loop_time_s()
        try:
            status, text = await self._engine.client.get(link.address, _METRICS, _WITHIN_S)
        except ValueError as error:
            log.warning("instance %s: %s", link.address.name, error)
        except (aiohttp.ClientError, OSError):
            pass
        else:
            return read(text) if status == HTTPStatus.OK else None
        return None

    async def _read_model(self, link: InstanceLink) -> None:
        """Read the instance's model, once; again where it does not answer, or does not let this server in."""
        status, said = await self._said(link, _MODELS)
        self._say_if_shut_out(link.address.name, status)
        if status != HTTPStatus.OK:
            return
        model = read_models(said)
        for route in () if model.dialect is None else model.dialect.info:
            status, more = await self._said(link, route)
            if status == HTTPStatus.OK:
                model = read_info(model, more)
                break
        link.serves(model)

    async def _said(self, link: InstanceLink, path: str) -> tuple[int, str]:
        """Status and text of a route; 0 for an answer that is too long."""
        try:
            return await self._engine.client.get(link.address, path, _WITHIN_S)
        except ValueError:
            return 0, ""

    def _say_if_shut_out(self, name: str, status: int) -> None:
        """Log once for each instance that it refuses this server: its health and metrics are open all the same."""
        if status != HTTPStatus.UNAUTHORIZED:
            self._shut_out.discard(name)
        elif name not in self._shut_out:
            self._shut_out.add(name)
            log.warning("instance %s answers 401: HEADWAY_INSTANCE_KEY has to be a key of it", name)

    async def _ready(self, link: InstanceLink) -> bool:
        client, name, within_s = self._engine.client, link.address.name, _WITHIN_S + link.health_takes_s
        for place in range(self._health.get(name, 0), len(_HEALTH)):
            status, _ = await client.get(link.address, _HEALTH[place], within_s)
            if status not in _NO_ROUTE:
                self._health[name] = place
                return status == HTTPStatus.OK
        self._health.pop(name, None)  # another server stands there now
        return False
