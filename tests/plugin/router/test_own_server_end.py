"""The end of a server that the router has started, under the gate and the supervisor: what follows for each request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from engines import installed, outcomes
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.admission import loop_time_s
from headway.operator.install import EngineParts
from headway.router.adapter import InstancesAdapter
from headway.router.addresses import Address
from headway.router.engine import InstancesEngine
from headway.router.forwarding.call import Call, InstanceLostError
from headway.router.forwarding.forwarded import CallParams, Forwarded, Piece
from headway.router.instances.instance import InstanceLink
from headway.router.instances.pool import InstancePool
from headway.supervision import Supervisor
from headway_policies import Cause, Recovery
from headway_policies.routing import Demand, InstanceHealth, LeastLoaded

SEATS, ANSWER_S, START_S = 2, 2.0, 5.0


class OwnServer:
    """The server, its HTTP client, and what starts another one in its place."""

    def __init__(self) -> None:
        link = InstanceLink(Address("vllm", "http://localhost"), SEATS, exclusive=True)
        self.pool = InstancePool([link], LeastLoaded(), loop_time_s)
        self.gone = False
        self.starts = 0
        self.fails = 0
        self.asked: list[str] = []
        self._ended = asyncio.Event()

    def cause(self) -> Cause:
        return Cause.CRASH

    def kill(self) -> None:
        self.gone = True
        self._ended.set()

    async def start(self) -> None:
        self.starts += 1
        await asyncio.sleep(START_S)
        if self.fails:
            self.fails -= 1
            raise RuntimeError("it does not start")
        self.gone = False
        self._ended = asyncio.Event()
        for link in self.pool.links.values():
            link.health = InstanceHealth(silent_s=1000.0)
            self.pool.heard(link)

    async def wait_for_report(self) -> None:
        await asyncio.sleep(0.5)

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        self.asked.append(request.target)
        if request.target == "flowing":
            yield Piece(b"first", 200)
        ended = asyncio.ensure_future(self._ended.wait())
        await call.step(asyncio.wait({ended}, timeout=ANSWER_S))
        if self._ended.is_set():
            raise InstanceLostError(address.name, sent=True)
        yield Piece(b"last", None if request.target == "flowing" else 200, last=True)


class Server:
    """That server behind a gate with two seats, and a supervisor that runs."""

    def __init__(self, **recovery: int) -> None:
        self.one = OwnServer()
        for link in self.one.pool.links.values():
            link.health = InstanceHealth(silent_s=1000.0)
            self.one.pool.heard(link)
        self.engine = InstancesEngine(self.one.pool, self.one, self.one)  # type: ignore[arg-type]
        preset = small_preset(SEATS).model_copy(update={"recovery": Recovery(**recovery)})
        self.control, self.parts = installed(self.engine, preset, adapter=InstancesAdapter(), supervise=self._supervise)
        self.parts.tasks.start("supervisor", self.supervisor.run())

    def _supervise(self, parts: EngineParts) -> Supervisor:
        self.supervisor = Supervisor(parts.gateway, self.one)
        return self.supervisor

    def ask(self, name: str) -> asyncio.Task[str]:
        """One request; what its client was sent, or the name of its error."""

        async def run() -> str:
            got = b""
            try:
                pieces = self.engine.generate(Forwarded("POST", name, ()), CallParams(), name, demand=Demand(10))
                async for piece in pieces:
                    got += piece.body
            except Exception as error:
                return f"{got.decode()} {type(error).__name__}".strip()
            return got.decode()

        return asyncio.create_task(run())

    def kill(self, *, told: bool) -> None:
        """The server ends; ``told``: that is said before a connection breaks."""
        self.one.gone = True
        for link in self.one.pool.links.values():
            self.one.pool.unready(link)
        if told:
            self.engine.engine_gone()
        else:
            self.one.kill()


@on_virtual_time
async def test_what_waits_and_what_had_no_output_is_answered_by_the_next_engine() -> None:
    """Each once; what had output ends with an error, and nothing of it is left."""
    for told in (True, False):
        server = Server()
        flowing, fresh, waiting = server.ask("flowing"), server.ask("fresh"), server.ask("waiting")
        await asyncio.sleep(0.5)
        server.kill(told=told)
        await asyncio.sleep(1.0)
        assert [call.done() for call in (flowing, fresh, waiting)] == [True, False, False]
        assert await flowing == "first Rejected"  # for want of an engine, as inside one
        assert await asyncio.gather(fresh, waiting) == ["last", "last"]
        assert sorted(server.one.asked) == ["flowing", "fresh", "fresh", "waiting"]
        assert outcomes(server.control) == {"engine_lost": 1, "completed": 2}
        assert server.supervisor.deaths == {Cause.CRASH: 1}
        assert [link.sent for link in server.one.pool.links.values()] == [0]
        server.parts.tasks.stop_all()


@on_virtual_time
async def test_after_the_last_attempt_all_requests_are_answered_and_the_server_may_end() -> None:
    """With a refusal: there will be no engine."""
    server = Server(max_restarts=1)
    server.one.fails = 5
    fresh = server.ask("fresh")
    await asyncio.sleep(0.5)
    server.kill(told=True)
    assert "Rejected" in await fresh
    assert (server.one.starts, server.parts.gateway.link.engine_lost) == (1, True)
    server.parts.tasks.stop_all()
