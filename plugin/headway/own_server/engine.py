"""The engine of a server that this process has started: its facts, its adapter and its replacement."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import psutil

from headway.engine import EngineSettings, PingAnswer
from headway.errors import NoEngineError
from headway.own_server.process import OwnServer
from headway.router.adapter import InstancesAdapter
from headway.router.addresses import Address
from headway.router.engine import InstancesEngine
from headway.router.forwarding.exchange import InstanceClient
from headway.router.instances.reading import InstanceReading
from headway.vllm_adapter.process.death_cause import read_death_cause
from headway.vllm_adapter.process.limits_page import LimitsPage
from headway.vllm_adapter.process.progress import ProgressReader
from headway_policies import Cause, Progress
from headway_policies.preset import Ability
from headway_policies.routing import InstanceHealth
from headway_policies.step import StepFigures, StepTerms

#: The only instance; the connections go to its socket, whatever the URL says.
ADDRESS: Final = Address("vllm", "http://localhost")
_HEALTH: Final = "/health"
_ASK_WITHIN_S: Final = 5.0
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The facts that the server reports of its engine: ``seats`` are those of all ``ranks``."""

    seats: int
    ranks: int = 1
    device: str = ""
    fingerprint: str = ""
    settings: EngineSettings = field(default_factory=EngineSettings)

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> EngineFacts:
        """Read the facts of a message. Raises ValueError or KeyError where it has none."""
        names = ("dtype", "quantization", "kv_cache_dtype", "max_model_len", "step_tokens", "max_loras")
        settings = EngineSettings(**{name: said[name] for name in names})
        return cls(int(said["seats"]), int(said["ranks"]), str(said["device"]), str(said["fingerprint"]), settings)


class OwnServerAdapter(InstancesAdapter):
    """The adapter of instances, with the facts of the one engine, which reports its progress.

    The engine keeps the limits of ``page``; without a page the gate alone keeps them, and vLLM plans the steps.
    """

    def __init__(
        self, facts: EngineFacts, reader: ProgressReader | None = None, page: LimitsPage | None = None
    ) -> None:
        self._facts = facts
        self._progress = reader
        self._page = page

    async def ping(self, engine: Any) -> PingAnswer | None:
        """Wait until each EngineCore was seen alive and between two steps, by its reports.

        None where no EngineCore has begun to report, before the first step. A process that has ended is of an engine
        before.
        """
        before = {report.engine: report for report in self.progress(engine) if psutil.pid_exists(report.engine)}
        if not before:
            return None
        while before:
            await asyncio.sleep(_POLL_S)
            for report in self.progress(engine):
                if (then := before.get(report.engine)) is not None and _answers(then, report):
                    del before[report.engine]
        return PingAnswer()

    def progress(self, engine: Any) -> Sequence[Progress]:
        """The reports in the file that EngineCore writes, also during a step."""
        return () if self._progress is None else self._progress.read()

    def step_figures(self, engine: Any) -> StepFigures | None:
        """The figures in the same file: the sum over all ranks."""
        return None if self._progress is None else self._progress.steps()

    def settings(self, engine: Any) -> EngineSettings:
        """The settings that the server has reported."""
        return self._facts.settings

    def lacks(self, engine: Any) -> frozenset[Ability]:
        """The ability to clear caches, and, without a page, to shape steps."""
        return frozenset({Ability.CACHES} if self._page is not None else {Ability.CACHES, Ability.SHAPES})

    async def limit_engine(self, engine: Any, seats: int) -> int | None:
        """Limit the engine from its next step on; each rank gets an equal part, rounded up."""
        if self._page is None:
            return None
        part = math.ceil(seats / self._facts.ranks)
        self._page.write(max_num_active_reqs=part)
        return min(self._facts.ranks * part, self._facts.seats)

    async def shape_steps(self, engine: Any, terms: StepTerms | None) -> None:
        """Shape the steps from the next one on."""
        if self._page is not None:
            self._page.write(step=None if terms is None else terms.plain())

    def fingerprint(self, engine: Any) -> str:
        """The fingerprint that the server has reported."""
        return self._facts.fingerprint


def _answers(before: Progress, now: Progress) -> bool:
    return now.works != before.works or (now.beats != before.beats and not now.at_work)


async def wait_until_up(server: OwnServer, client: InstanceClient) -> EngineFacts:
    """Wait until the server answers; returns what it reported of its engine.

    Raises NoEngineError, in one line, where the server ends, or its engine is started in a way that reports nothing.
    """
    status = None
    while status != HTTPStatus.OK:
        if server.gone:
            raise NoEngineError(server.why)
        await asyncio.sleep(_POLL_S)
        with suppress(aiohttp.ClientError, OSError, TimeoutError):
            status, _ = await client.get(ADDRESS, _HEALTH, _ASK_WITHIN_S)
    if server.engine is None:
        raise NoEngineError("vLLM has started an engine of which Headway knows neither seats nor progress")
    server.watch()
    return EngineFacts.read(server.engine)


class OwnServerReplacer:
    """The replacer of the engine: starts its server again (see ``headway.supervision``: ``Replacer``)."""

    def __init__(self, server: OwnServer, engine: InstancesEngine) -> None:
        self._server = server
        self._engine = engine

    def cause(self) -> Cause:
        """The cause that EngineCore wrote down before it died; a crash when it could not."""
        return read_death_cause()

    def kill(self) -> None:
        """End the server at once, also while it starts."""
        self._server.kill()

    async def start(self) -> None:
        """Start the server again, as the same instance. Raises NoEngineError."""
        read_death_cause()  # that of an earlier start says nothing of this one
        await self._server.start()
        await wait_until_up(self._server, self._engine.client)
        link = self._engine.pool.links[ADDRESS.name]
        link.health, link.reading = InstanceHealth(), InstanceReading()
        self._engine.pool.heard(link)
