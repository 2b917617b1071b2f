"""Recycle: a running engine is replaced by another one, and no request is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from engines import TrippingEngine, installed, outcomes
from starlette.applications import Starlette
from virtual_time import on_virtual_time

from headway.audit import Caller
from headway.engine.fake import FakeEngine, FakeParams
from headway.http.admin.handlers import routes
from headway.http.admin.tokens import Role, Tokens
from headway.operator.control import Control
from headway.operator.install import EngineParts
from headway.supervision.engine_recycle import CannotReplaceError, NotNowError
from headway.supervision.supervisor import Supervisor
from headway_policies import AdmissionState, Cause, bundled_presets
from headway_policies.memory.settings import Memory

OPERATOR = "operator-token-0123456789-0123456789"
VIEWER = "viewer-token-0123456789-0123456789ab"
ME = Caller("ann", "operator")


class Workshop:
    """An engine behind a gate, and a replacer that takes two seconds."""

    def __init__(
        self,
        *,
        drain_s: float = 60.0,
        fails: bool = False,
        can_replace: bool = True,
        engine: FakeEngine | None = None,
        supervise: Callable[[EngineParts], Supervisor] | None = None,
    ) -> None:
        preset = bundled_presets()["latency"].model_copy(update={"memory": Memory(recycle_drain_s=drain_s)})
        replace = self._replace if can_replace and supervise is None else None
        self.control, parts = installed(engine or FakeEngine(), preset, supervise=supervise, replace=replace)
        self.tasks = parts.tasks
        self.running_then: list[int] = []
        self._fails = fails

    async def _replace(self) -> None:
        self.running_then.append(len(self.control.gateway.link.engine.running))  # type: ignore[attr-defined]  # a fake engine
        await asyncio.sleep(2.0)
        if self._fails:
            raise RuntimeError("no memory for another one")

    async def ask(self, request_id: str, tokens: int) -> int:
        engine: Any = self.control.gateway.link.engine
        outputs = [output async for output in engine.generate("p", FakeParams(tokens), request_id)]
        return len(outputs[-1].tokens)

    def results(self) -> list[str]:
        return [line.result for line in reversed(self.control.audit.entries(10))]


@on_virtual_time
async def test_running_requests_finish_new_ones_wait_and_none_is_lost() -> None:
    """The engine is empty when it is replaced; all get their whole answers, and the gate is open again."""
    shop = Workshop()
    running = [asyncio.create_task(shop.ask(f"r{number}", 100)) for number in range(4)]
    await asyncio.sleep(0.5)
    shop.control.recycle(ME, "a test")
    await asyncio.sleep(0.1)
    assert shop.control.status().memory.recycling
    assert shop.control.not_ready() == []
    late = [asyncio.create_task(shop.ask(f"l{number}", 5)) for number in range(4)]
    assert await asyncio.gather(*running, *late) == [100] * 4 + [5] * 4
    assert shop.running_then == [0]
    assert (shop.control.gateway.gate.desk.mode.state, outcomes(shop.control)) == (
        AdmissionState.OPEN,
        {"completed": 8},
    )
    assert not shop.control.status().memory.recycling
    assert shop.control.memory.recycled == {"command": 1}
    assert shop.results()[0] == "accepted"
    assert shop.results()[1].startswith("applied after ")


class SpareEngine:
    """A replacer of the fake engine: another one comes after a second."""

    def __init__(self, engine: TrippingEngine) -> None:
        self._engine = engine

    def cause(self) -> Cause:
        raise AssertionError("it was no accident")

    def kill(self) -> None:
        assert self._engine.running == {}
        self._engine.die()

    async def start(self) -> None:
        await asyncio.sleep(1.0)
        self._engine.revive()


@on_virtual_time
async def test_the_keeper_replaces_it_and_counts_no_death_of_a_crash() -> None:
    """With the real supervisor: running requests finish, waiting ones are served by the other engine, and all seats
    stay open."""
    engine = TrippingEngine()
    shop = Workshop(engine=engine, supervise=lambda parts: Supervisor(parts.gateway, SpareEngine(engine)))
    control, supervisor = shop.control, shop.control.supervisor
    assert supervisor is not None
    shop.tasks.start("supervisor", supervisor.run())
    running = asyncio.create_task(shop.ask("r", 100))
    await asyncio.sleep(0.5)
    control.recycle(ME)
    await asyncio.sleep(0.1)
    assert await asyncio.gather(running, shop.ask("late", 5)) == [100, 5]
    await asyncio.sleep(1.0)
    assert (outcomes(control), control.memory.recycled) == ({"completed": 2}, {"command": 1})
    assert supervisor.restarts.deaths == 0
    assert (control.gateway.gate.desk.limit, control.not_ready()) == (8, [])
    shop.tasks.stop_all()


@on_virtual_time
async def test_a_request_that_does_not_finish_in_time_is_not_killed() -> None:
    """The recycle is given up, the request goes on, and so does everything else."""
    shop = Workshop(drain_s=3.0)
    slow = asyncio.create_task(shop.ask("slow", 1000))
    await asyncio.sleep(0.5)
    shop.control.recycle(ME)
    await asyncio.sleep(3.5)
    assert shop.results() == ["accepted", "given up: 1 seats still taken after 3 s"]
    assert await shop.ask("other", 3) == 3
    assert await slow == 1000
    assert (shop.running_then, shop.control.memory.recycled.total()) == ([], 0)


@on_virtual_time
async def test_a_replacement_that_fails_opens_the_gate_again() -> None:
    """The supervisor takes over from here; the audit says what happened."""
    shop = Workshop(fails=True)
    shop.control.recycle(ME)
    await asyncio.sleep(0.1)
    assert await shop.ask("r", 3) == 3
    assert shop.results() == ["accepted", "failed: RuntimeError"]


@on_virtual_time
async def test_a_paused_server_stays_paused() -> None:
    """The operator's pause is not ended by it."""
    shop = Workshop()
    shop.control.gateway.gate.pause()
    shop.control.recycle(ME)
    await asyncio.sleep(5.0)
    assert shop.control.gateway.gate.desk.mode.state is AdmissionState.PAUSED
    assert shop.control.memory.recycled.total() == 1


@on_virtual_time
async def test_one_at_a_time_and_only_where_there_is_something_to_replace() -> None:
    """Refused, and written down, while another is under way, without a replacer, while draining, without an engine."""
    shop = Workshop()
    shop.control.recycle(ME)
    with pytest.raises(NotNowError, match="under way"):
        shop.control.recycle(ME)
    await asyncio.sleep(5.0)
    shop.control.gateway.gate.drain()
    with pytest.raises(NotNowError, match="draining"):
        shop.control.recycle(ME)
    plain = Workshop(can_replace=False)
    with pytest.raises(CannotReplaceError, match="restart it"):
        plain.control.recycle(ME)
    assert [result for result in shop.results() + plain.results() if result.startswith("refused")] == [
        "refused: a recycle is under way",
        "refused: the server is draining, or its engine is not running",
        "refused: this server cannot replace its engine; restart it",
    ]


async def post(control: Control, token: str, **options: Any) -> httpx.Response:
    """The route."""
    tokens = Tokens({OPERATOR: Role.OPERATOR, VIEWER: Role.VIEWER})
    app = Starlette(routes=routes(lambda: control, tokens))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://headway") as client:
        headers = {"Authorization": f"Bearer {token}"}
        return await client.post("/headway/v1/recycle", headers=headers, **({"json": {}} | options))


async def test_an_operator_may_ask_for_it_over_http() -> None:
    """202 at once, 409 while it lasts; the actor and the reason are in the audit."""
    shop = Workshop()
    answer = await post(shop.control, OPERATOR, json={"reason": "old", "actor": "bob"})
    assert (answer.status_code, answer.json()) == (202, {"accepted": True, "seats_taken": 0})
    assert (await post(shop.control, OPERATOR)).status_code == 409
    line = shop.control.audit.entries(10)[1]
    assert (line.actor, line.reason, line.action) == ("bob", "old", "recycle_engine")
    shop.tasks.stop_all()


@pytest.mark.parametrize(
    ("token", "options", "status"),
    [
        (VIEWER, {}, 403),
        ("wrong" * 9, {}, 401),
        (OPERATOR, {"json": {"force": True}}, 422),
        (OPERATOR, {"json": None, "content": b"reason=x"}, 415),
        (OPERATOR, {}, 501),
    ],
)
async def test_a_refused_recycle_changes_nothing(token: str, options: dict[str, Any], status: int) -> None:
    """A problem with one sentence, an audit line, and an open gate."""
    shop = Workshop(can_replace=False)
    answer = await post(shop.control, token, **options)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert [result.split(":")[0] for result in shop.results()] == ["refused"]
    assert shop.control.gateway.gate.desk.mode.state is AdmissionState.OPEN
