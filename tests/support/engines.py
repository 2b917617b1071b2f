"""Fake engines that fail on demand, and checks of an idle gate."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from headway.engine.fake import FakeEngine, FakeOutput, FakeParams
from headway.engine.port import PlainAdapter, StepListener
from headway.fallback import OtherModel
from headway.operator.commands.warmup import WarmBesideTraffic
from headway.operator.control import Control
from headway.operator.install import EngineParts, Surroundings, install, prepare
from headway.operator.presets import PresetCatalogue
from headway.supervision.supervisor import Supervisor
from headway.usage import UsageLog
from headway_policies import Outcome, Preset


class ReportingEngine(FakeEngine):
    """A fake engine that a limit could follow: it takes a listener, and tells it nothing."""

    def listen(self, listener: StepListener) -> None:
        """Nothing is reported."""


class TrippingEngine(FakeEngine):
    """A fake engine that can context over single requests, as an engine does that stays alive."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.trips_over: set[str] = set()

    async def generate(
        self, prompt: Any, sampling_params: FakeParams, request_id: str, *, priority: int = 0, **options: Any
    ) -> AsyncGenerator[FakeOutput, None]:
        """As the fake's own, until it is to context over this request."""
        async for output in super().generate(prompt, sampling_params, request_id, priority=priority, **options):
            self._trip(request_id)
            yield output
        self._trip(request_id)

    def _trip(self, request_id: str) -> None:
        if request_id in self.trips_over:
            self.trips_over.remove(request_id)
            raise RuntimeError(f"tripped over {request_id}")

    def revive(self) -> None:
        """An engine in place of the dead one."""
        self._dead = False


class ServingEngine(TrippingEngine):
    """With the rest of what a server's engine has: an admission check, pooling and a shutdown."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.checked: list[tuple[int, str | None]] = []
        self.max_loras: int | None = None
        self.stopped = False

    def check_admission(self, n: int = 1, request_id: str | None = None) -> None:
        """Record the query."""
        self.checked.append((n, request_id))

    async def encode(
        self, prompt: Any, pooling_params: Any, request_id: str, *, priority: int = 0, **options: Any
    ) -> AsyncGenerator[FakeOutput, None]:
        """One vector of one number."""
        async for output in super().generate(prompt, FakeParams(1), request_id, priority=priority):
            yield output

    def shutdown(self, timeout: float | None = None) -> None:
        """Stop."""
        self.stopped = True


#: What runs for as long as an engine is wrapped by a program.
BACKGROUND = {
    f"headway {name}"
    for name in (
        "supervisor",
        "loop_lag",
        "overload_log",
        "objectives_log",
        "window_log",
        "fallback_controller",
        "diagnostics",
        "scale_signal",
        "memory maintenance",
        "keep-warm",
        "ping",
    )
}


def installed(
    engine: Any,
    preset: Preset,
    *,
    adapter: PlainAdapter | None = None,
    warm_up: bool = False,
    supervise: Callable[[EngineParts], Supervisor] | None = None,
    replace: Callable[[], Awaitable[None]] | None = None,
    other_model: OtherModel | None = None,
    warm_beside_traffic: WarmBesideTraffic | None = None,
    usage: UsageLog | None = None,
) -> tuple[Control, EngineParts]:
    """An engine behind the gate, as a server has it; its supervisor, where there is one, is made but not started."""
    catalogue = PresetCatalogue()
    catalogue.include(preset)
    parts = prepare(engine, adapter or PlainAdapter(), preset, warm_up=warm_up)
    supervisor = None if supervise is None else supervise(parts)
    if supervisor is not None and replace is None:
        replace = supervisor.recycle
    around = Surroundings(
        supervisor=supervisor,
        replace=replace,
        other_model=other_model,
        warm_beside_traffic=warm_beside_traffic,
        usage=usage,
    )
    return install(parts, catalogue, around), parts


def outcomes(control: Control) -> dict[str, int]:
    """The outcomes over all classes, after a check of the accounting identity."""
    total: Counter[Outcome] = Counter()
    for counts in control.gateway.gate.desk.ledger.classes.values():
        assert counts.balanced
        total += counts.outcomes
    return {str(outcome): number for outcome, number in total.items()}


async def assert_no_residue(control: Control) -> None:
    """Once the engine runs and all tasks are done no state remains: no call, ticket, seat, task or request."""
    gateway, gate, engine = control.gateway, control.gateway.gate, control.gateway.link.engine
    engine.stalled = False  # type: ignore[attr-defined]  # a fake engine
    await asyncio.sleep(2 * engine.step_s + 1.0)  # type: ignore[attr-defined]  # a fake engine
    assert gateway.open_calls == 0
    link, calls = gateway.link, gateway.link.calls
    assert (calls._of, calls._unstreamed, calls.stopping, link.loop.tasks) == ({}, {}, {}, set())
    assert (gate.desk.seats_taken, gate.desk.sequences, gateway.unseated) == (0, 0, 0)
    assert (gate.desk.ledger.queued, gate.desk.ledger.in_flight) == (0, 0)
    assert gate._permits == {}
    assert gate.desk._lifecycle.records == {}
    assert engine.running == {}  # type: ignore[attr-defined]  # a fake engine
    assert {task for task in asyncio.all_tasks() if task.get_name() not in BACKGROUND} == {asyncio.current_task()}
