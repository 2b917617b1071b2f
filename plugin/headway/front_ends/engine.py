"""The engine of a group: what is known of it, its API servers as instances, and another one in its place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import aiohttp

from headway.admission import loop_time_s
from headway.engine import Answer, EngineSettings
from headway.errors import NoEngineError
from headway.front_ends.group import Group, instance_name
from headway.router.adapter import InstancesAdapter
from headway.router.addresses import Address
from headway.router.engine import InstancesEngine
from headway.router.exchange import InstanceClient
from headway.router.instance import InstanceLink
from headway.router.pool import InstancePool
from headway.router.reading import Reading
from headway.vllm_adapter.process.death_cause import read_death_cause
from headway.vllm_adapter.process.progress import ProgressReader
from headway_policies import Cause, Hold, Progress
from headway_policies.routing import InstanceHealth, LeastLoaded

_FACTS: Final = "/headway/front-end"
_PING: Final = "/headway/front-end/ping"
_PING_WITHIN_S: Final = 600.0  # an engine that is stopped answers when it goes on
_ASK_WITHIN_S: Final = 5.0
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What an API server says of its engine: ``seats`` of all ranks, and what forecasts and diagnosis want to know."""

    seats: int
    device: str = ""
    fingerprint: str = ""
    settings: EngineSettings = field(default_factory=EngineSettings)

    @classmethod
    def read(cls, text: str) -> EngineFacts:
        """Raises ValueError or KeyError for what is none."""
        said: Mapping[str, Any] = json.loads(text)
        names = ("dtype", "quantization", "kv_cache_dtype", "max_model_len", "step_tokens")
        settings = EngineSettings(**{name: said[name] for name in names})
        return cls(int(said["seats"]), str(said["device"]), str(said["fingerprint"]), settings)


class GroupAdapter(InstancesAdapter):
    """As for instances, with what is known of their one engine, which answers pings and reports its progress."""

    def __init__(self, facts: EngineFacts) -> None:
        self._facts = facts
        self._progress = ProgressReader.from_environment()

    async def ping(self, engine: Any) -> Answer | None:
        """The first answer through any healthy API server, since one that hangs is no engine that hangs; None where
        none is healthy. Raises what the last one to fail did, where all of them have."""
        asked = [asyncio.ensure_future(_ping(engine.client, link.address)) for link in engine.pool.healthy()]
        failed: Exception | None = None
        try:
            for one in asyncio.as_completed(asked):
                try:
                    return await one
                except Exception as error:
                    failed = error
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        if failed is not None:
            raise failed
        return None

    def progress(self, engine: Any) -> Sequence[Progress]:
        """From the file that EngineCore writes, also during a step."""
        return () if self._progress is None else self._progress.read()

    def settings(self, engine: Any) -> EngineSettings:
        """As an API server has said."""
        return self._facts.settings

    def fingerprint(self, engine: Any) -> str:
        """As an API server has said."""
        return self._facts.fingerprint


async def _ping(client: InstanceClient, address: Address) -> Answer:
    """What the engine answers through one API server. Raises NoEngineError, OSError, aiohttp.ClientError, ValueError or
    KeyError."""
    status, text = await client.get(address, _PING, _PING_WITHIN_S)
    if status != HTTPStatus.OK:
        raise NoEngineError(f"{address.name} could not ask the engine")
    return Answer(frozenset(Hold(one) for one in json.loads(text)["holds"]))


async def wait_until_up(group: Group, client: InstanceClient, addresses: list[Address]) -> EngineFacts:
    """Wait until every API server answers, or has ended.

    Raises NoEngineError, in one line, where the group or the last API server ends first.
    """
    facts: EngineFacts | None = None
    for address in addresses:
        while address.name not in group.lost:
            if group.gone:
                raise NoEngineError(group.why)
            try:
                status, text = await client.get(address, _FACTS, _ASK_WITHIN_S)
                if status == HTTPStatus.OK:
                    facts = facts or EngineFacts.read(text)
                    break
            except (aiohttp.ClientError, OSError, TimeoutError):
                pass
            await asyncio.sleep(_POLL_S)
    if facts is None:
        raise NoEngineError("every API server ended before it answered; the cause is in the log above")
    return facts


def addresses_of(settings: Mapping[str, Any]) -> list[Address]:
    """Where the API servers of a group listen, by its settings."""
    return [Address(instance_name(at), f"http://127.0.0.1:{port}") for at, port in enumerate(settings["ports"])]


def engine_of(group: Group, client: InstanceClient, addresses: list[Address], facts: EngineFacts) -> InstancesEngine:
    """The API servers as instances of one engine; they share its cache, so any of them does for a prefix."""
    links = [InstanceLink(address, facts.seats) for address in addresses]
    pool = InstancePool(links, LeastLoaded(kv=0.0, kv_long=0.0, affinity=0.0), loop_time_s, shared_seats=facts.seats)
    engine = InstancesEngine(pool, client, group)
    group.on_lost = lambda number: pool.lost(pool.links[instance_name(number)])
    group.on_dead = engine.engine_gone
    return engine


class GroupReplacer:
    """Starts the group again when its engine has died (see ``headway.supervision``: ``Replacer``)."""

    def __init__(self, group: Group, engine: InstancesEngine) -> None:
        self._group = group
        self._engine = engine

    def cause(self) -> Cause:
        """By what EngineCore wrote down before it died; a crash when it could not."""
        return read_death_cause()

    def kill(self) -> None:
        """End the group at once, also one that is starting."""
        self._group.kill()

    async def start(self) -> None:
        """Start another group, and take its API servers for the instances. Raises NoEngineError."""
        pool = self._engine.pool
        addresses = addresses_of(await self._group.start())
        for address in addresses:  # at once: from now on there is a key, which is not for the ports of before
            pool.links[address.name].address = address
        await wait_until_up(self._group, self._engine.client, addresses)
        for address in addresses:
            link = pool.links[address.name]
            link.health, link.reading = InstanceHealth(), Reading()
            if address.name not in self._group.lost:
                pool.heard(link)
