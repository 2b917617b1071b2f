"""Where each part of a preset acts: the table in plugin/README.md, cell by cell.

A cell that says ``yes`` is tried, and so is one that says ``-``: there the part must change nothing. ``headway serve``
and plain ``vllm serve`` are the parts that the endpoint plugin builds, around a fake engine, with a replacer and
without; tests/engine has both with a real one.
"""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

import headway
from headway import Batcher, Expired, HeadwayError
from headway.audit import Caller
from headway.engine import PlainAdapter, StepListener
from headway.engine.fake import FakeEngine, FakeParams
from headway.engine_service import EngineService
from headway.fallback import OtherEngine
from headway.operator import PresetCatalogue
from headway.simulator import EngineModel, Request, simulate
from headway.supervision import CannotReplaceError, FactoryReplacer
from headway.warmup import OneRequest
from headway_policies import EngineState, Load, Preset, Reason, Recovery
from headway_policies.engine import Warmup
from headway_policies.fallback import Fallback
from headway_policies.limits import LimitSettings
from headway_policies.memory import Memory
from headway_policies.queueing import OrderSettings

ROOT = Path(__file__).parents[2]
ME = Caller(actor="test", role="admin", address="-")
TOKEN_S = 0.05
PLACES = ("serve", "plain", "wrap", "Batcher", "simulator")


class Engine(FakeEngine):
    """A fake engine with a shutdown."""

    def shutdown(self, timeout: float | None = None) -> None:
        """Stop everything."""
        self.die()


class ReportingEngine(Engine):
    """One that reports its steps, each token a step; a sequence more makes them slower."""

    listener: StepListener | None = None

    def listen(self, listener: StepListener) -> None:
        """From now on."""
        self.listener = listener

    async def generate(self, *arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
        """As any other."""
        async for output in super().generate(*arguments, **options):
            if self.listener is not None:
                running = len(self.running)
                self.listener.step(Load(running, 0, 0.0, inter_token_s=TOKEN_S * running), running, [])
            yield output


def preset(seats: int = 2, **parts: Any) -> Preset:
    """Two classes; ``parts`` are the tables to set, ``normal`` further keys of that class."""
    own = {"queue_s": 50.0, "fallback_max_tokens": 2, "may_divert": True} | parts.pop("normal", {})
    made = small_preset(
        seats,
        classes={"normal": terms(2, **own), "batch": terms(1)},
        batching=parts.pop("batching", None),
        queue=parts.pop("queue", None),
        limit=parts.pop("limit", None),
        most_waiting=parts.pop("most_waiting", 100),
    )
    return made.model_copy(update=parts)


class Site:
    """One place with an engine: a server, or a program."""

    def __init__(self, place: str, chosen: Preset, engine: type[Engine] = Engine) -> None:
        self.plain, self.other = engine(step_s=1.0), FakeEngine(step_s=1.0)
        self.place = place

        def start(request_id: str) -> Any:
            return self.plain.generate("text", FakeParams(1), request_id)

        if place == "wrap":
            self.engine: Any = headway.wrap(
                self.plain, chosen, warmup=start, fallback=self.other, engine_factory=lambda: Engine(step_s=1.0)
            )
            self.begin: Callable[[], Awaitable[None]] = self._first_request
        else:
            catalogue = PresetCatalogue()
            catalogue.include(chosen)
            service = EngineService(
                self.plain,
                PlainAdapter(),
                chosen,
                catalogue,
                source=OneRequest(start),
                warm_up=True,
                replacer=FactoryReplacer(self.plain, lambda: Engine(step_s=1.0)) if place == "serve" else None,
                other_model=OtherEngine(self.other),  # a server's is behind HTTP, under the same ladder
            )
            self.engine, self.begin = self.plain, service.serve
        self.control: headway.Control = self.engine.headway

    async def _first_request(self) -> None:
        await self.control.warm_up()

    async def ask(self, request_id: str, class_name: str = "normal", tokens: int = 3, **options: Any) -> int:
        """The number of tokens of an answer. Raises Refused."""
        stream = self.engine.generate("text", FakeParams(tokens), request_id, priority=class_name, **options)
        return len([one async for one in stream])

    def started(self) -> list[str]:
        """The requests that the engine was given, without Headway's own."""
        return [one for one in self.engine.started if not one.startswith("headway-")]


def at_once(number: int, **options: Any) -> list[Request]:
    """Requests for the simulator, all at 0 s."""
    fields = {"at_s": 0.0, "class_name": "normal", "prompt_tokens": 8, "output_tokens": 3} | options
    return [Request(**fields) for _ in range(number)]


async def batches_of(batcher: Batcher[int, int], number: int) -> list[Any]:
    """What came of so many items, given at once."""
    return await asyncio.gather(*(batcher.submit(item) for item in range(number)), return_exceptions=True)


def recorded(batches: list[list[int]], took_s: float = 0.0) -> Callable[[list[int]], Awaitable[list[int]]]:
    """A batch function that writes its batches down, and takes so long for each item."""

    async def process(items: list[int]) -> list[int]:
        batches.append(items)
        await asyncio.sleep(took_s * len(items))
        return items

    return process


# ---------------------------------------------------------------------- the parts: whether each acts in a place


async def seats(place: str) -> bool:
    """No more than two run at once."""
    if place == "Batcher":
        sizes: list[int] = []
        await batches_of(Batcher(lambda items: sizes.append(len(items)) or items, max_batch_size=2), 5)
        return max(sizes) == 2
    if place == "simulator":
        result = simulate(at_once(5), preset(2), EngineModel(max_num_seqs=8))
        return max(moment.running for moment in result.moments) <= 2
    site = Site(place, preset(2))
    await site.begin()
    site.engine.most_running = 0
    await asyncio.gather(*(site.ask(f"{number}") for number in range(5)))
    return bool(site.engine.most_running == 2)


async def window(place: str) -> bool:
    """A first request waits for others."""
    loop = asyncio.get_running_loop()
    gathers = {"strategy": "dynamic", "window_ms": 5000}
    if place == "Batcher":
        began_s = loop.time()
        await Batcher(lambda items: items, max_wait_ms=5000).submit(1)
        return loop.time() - began_s >= 5
    if place == "simulator":
        [visit] = simulate(at_once(1, class_name="batch"), preset(2, batching=gathers)).visits
        return bool(visit.dispatched_s is not None and visit.dispatched_s >= 5)
    site = Site(place, preset(2, batching=gathers))
    await site.begin()
    began_s = loop.time()
    await site.ask("a", "batch", tokens=1)
    return loop.time() - began_s >= 5


async def queue_bounds(place: str) -> bool:
    """The second of two that would wait is refused."""
    if place == "Batcher":
        found = await batches_of(Batcher(lambda items: items, max_batch_size=2, max_size=2), 9)
        return any(isinstance(one, HeadwayError) for one in found)
    if place == "simulator":
        result = simulate(at_once(4), preset(1, most_waiting=1))
        return any(visit.reason is not None for visit in result.visits)
    site = Site(place, preset(1, most_waiting=1))
    await site.begin()
    found = await asyncio.gather(*(site.ask(f"{number}") for number in range(4)), return_exceptions=True)
    return any(isinstance(one, HeadwayError) for one in found)


async def limit(place: str) -> bool:
    """Fewer run where the tokens of all seats would come later than the objective of a class."""
    adaptive = preset(8, limit=LimitSettings(policy="aimd"), normal={"inter_token_slo_ms": 3000 * TOKEN_S})
    if place == "Batcher":
        batches: list[list[int]] = []
        await batches_of(Batcher(recorded(batches, took_s=10.0), max_batch_size=8, max_wait_ms=0), 41)
        return min(len(items) for items in batches[1:]) < 8
    if place == "simulator":
        model = EngineModel(base_s=0.0, seat_s=TOKEN_S, max_num_seqs=8)
        result = simulate(at_once(40, output_tokens=40), adaptive, model)
        return min(moment.limit for moment in result.moments) < 8
    site = Site(place, adaptive, ReportingEngine)
    await site.begin()
    asked = [asyncio.create_task(site.ask(f"{number}", tokens=60)) for number in range(16)]
    await asyncio.sleep(50)
    open_seats = site.control.gateway.gate.desk.limit
    await asyncio.gather(*asked, return_exceptions=True)
    return open_seats < 8


async def order_between(place: str) -> bool:
    """Those that wait go by the order that is named: under ``strict`` all urgent ones first, else a share of each."""
    mixed = ["batch"] * 5 + ["normal"] * 4
    if place == "Batcher":
        batches: list[list[int]] = []
        batcher = Batcher(recorded(batches, took_s=1.0), max_batch_size=1)
        await asyncio.gather(*(batcher.submit(at, name) for at, name in enumerate(mixed)))
        return batches[1] == [mixed.index("normal")]
    orders = {}
    for named in ("strict", "weighted"):
        chosen = preset(1, ordering=OrderSettings(between=named, inside="fifo"), normal={"share": 0.5})
        if place == "simulator":
            requests = [at_once(1, class_name=name, max_tokens=3)[0] for name in mixed]
            visits = simulate(requests, chosen).visits
            orders[named] = [one.class_name for one in sorted(visits, key=lambda one: one.dispatched_s or 0.0)]
            continue
        site = Site(place, chosen)
        await site.begin()
        await asyncio.gather(*(site.ask(f"{name} {at}", name, tokens=1) for at, name in enumerate(mixed)))
        orders[named] = [one.split()[0] for one in site.started()]
    urgent_first = ["batch", *["normal"] * 4, *["batch"] * 4]
    return orders["strict"] == urgent_first != orders["weighted"]


async def order_inside(place: str) -> bool:
    """Those of one class go by the discipline that is named: by tenant, or by deadline, and not as they came."""
    if place == "Batcher":
        batches: list[list[int]] = []
        batcher = Batcher(recorded(batches, took_s=1.0), max_batch_size=1)
        await asyncio.gather(*(batcher.submit(item, timeout=50.0 - item) for item in range(5)))
        return batches != [[item] for item in range(5)]
    tenants = ["heavy"] * 5 + ["light"]
    orders = {}
    for named in ("fifo", "fair"):
        chosen = preset(1, ordering=OrderSettings(between="strict", inside=named))
        if place == "simulator":
            requests = [at_once(1, tenant=tenant, max_tokens=3)[0] for tenant in tenants]
            visits = simulate(requests, chosen).visits
            orders[named] = [one.request.tenant for one in sorted(visits, key=lambda one: one.dispatched_s or 0.0)]
            continue
        site = Site(place, chosen)
        await site.begin()
        await asyncio.gather(
            *(site.ask(f"{tenant} {at}", tokens=1, tenant=tenant) for at, tenant in enumerate(tenants))
        )
        orders[named] = [one.split()[0] for one in site.started()]
    return orders["fifo"] == tenants != orders["fair"]


async def time_outs(place: str) -> bool:
    """A request that has waited for long enough is refused."""
    if place == "Batcher":
        batcher = Batcher(recorded([], took_s=20.0), max_batch_size=1)
        found = await asyncio.gather(*(batcher.submit(at, timeout=25.0) for at in range(3)), return_exceptions=True)
        return isinstance(found[2], Expired)
    if place == "simulator":
        visits = simulate(at_once(2, output_tokens=400), preset(1, normal={"queue_s": 5.0})).visits
        return visits[1].reason is Reason.QUEUE_TIMEOUT
    site = Site(place, preset(1, normal={"queue_s": 5.0}))
    await site.begin()
    found = await asyncio.gather(*(site.ask(f"{at}", tokens=10) for at in range(2)), return_exceptions=True)
    return isinstance(found[1], Expired)


async def early_refusal(place: str) -> bool:
    """While more arrives than can be served within the objective, some are refused long before their time-out."""
    chosen = preset(1, normal={"queue_s": None, "total_s": None, "ttft_slo_s": 4.0})
    ours = (Reason.OBJECTIVE_INFEASIBLE, Reason.OBJECTIVE_UNREACHABLE)
    if place == "simulator":
        requests = [at_once(1, at_s=float(at))[0] for at in range(60)]
        visits = simulate(requests, chosen, EngineModel(base_s=1.0)).visits
        return any(visit.reason in ours for visit in visits)
    asked = []
    if place == "Batcher":
        batcher = Batcher(recorded([], took_s=3.0), max_batch_size=1)
    else:
        site = Site(place, chosen)
        await site.begin()
    for at in range(60):
        asked.append(asyncio.create_task(batcher.submit(at) if place == "Batcher" else site.ask(f"{at}")))
        await asyncio.sleep(1)
    found = await asyncio.gather(*asked, return_exceptions=True)
    return any(getattr(one, "reason", None) in ours for one in found)


async def reserve(place: str) -> bool:
    """Less urgent requests leave seats free for a class: those that it states, or that its objective requires."""
    most: list[int] = []
    for seats, own in ((8, {"reserved_seats": 2}), (8, {"ttft_slo_s": 5.0})):
        if place == "Batcher":
            batches: list[list[int]] = []
            await batches_of(Batcher(recorded(batches), max_batch_size=seats), 20)
            most.append(max(len(items) for items in batches))
        elif place == "simulator":
            result = simulate(at_once(20, class_name="batch", output_tokens=40), preset(seats, normal=own))
            most.append(max(moment.running for moment in result.moments))
        else:
            site = Site(place, preset(seats, normal=own))
            await site.begin()
            site.engine.most_running = 0
            await asyncio.gather(*(site.ask(f"{number}", "batch", tokens=1) for number in range(20)))
            most.append(site.engine.most_running)
    return most == [6, 7]


async def warmup(place: str) -> bool:
    """Requests of its own reach the engine before the first one."""
    site = Site(place, preset(2, warmup=Warmup(max_rounds=1)))
    await site.begin()
    await site.ask("a")
    return bool(site.engine.started[0].startswith("headway-warm-up") and site.engine.started[-1] == "a")


async def keep_warm(place: str) -> bool:
    """An idle engine gets a short request now and then."""
    site = Site(place, preset(2, warmup=Warmup(keep_warm_after_s=10)))
    await site.begin()
    await site.ask("a")
    before = len(site.engine.started)
    await asyncio.sleep(60)
    return len(site.engine.started) > before


async def ladder(place: str) -> bool:
    """While requests wait for long, answers are shorter."""
    site = Site(place, preset(1, fallback=Fallback(queue_age_s=5, enter_s=1)))
    await site.begin()
    holder = asyncio.create_task(site.ask("long", tokens=20))
    await asyncio.sleep(0.5)
    capped = await site.ask("a", tokens=8)
    await holder
    return capped == 2


async def divert(place: str) -> bool:
    """Another model answers while the engine is down."""
    site = Site(place, preset(2, fallback=Fallback(engine_down=True, enter_s=1), recovery=Recovery(max_restarts=0)))
    await site.begin()
    await site.ask("a")
    site.engine.die()
    with suppress(Exception):
        await site.ask("b")
    await asyncio.sleep(5)
    return await site.ask("c") == 3 and site.other.started == ["c"]


async def watch(place: str) -> bool:
    """An engine that hangs gets no request."""
    site = Site(place, preset(2, recovery=Recovery(hang_after_s=2)))
    await site.begin()
    await site.ask("a")
    site.engine.stalled = True
    await asyncio.sleep(20)
    silent = site.control.gateway.gate.desk.engine is EngineState.SILENT
    site.engine.stalled = False
    return silent


async def restart(place: str) -> bool:
    """A dead engine is replaced, and the next request is served."""
    site = Site(place, preset(2))
    await site.begin()
    await site.ask("a")
    await asyncio.sleep(1)
    site.engine.die()
    try:
        return await site.ask("b") == 3
    except Exception:
        with suppress(Exception):
            return await site.ask("c") == 3
        return False


async def recycle(place: str) -> bool:
    """A living engine is replaced on the preset's schedule, and on command."""
    site = Site(place, preset(2, memory=Memory(recycle_every_s=60)))
    await site.begin()
    await site.ask("a")
    with suppress(CannotReplaceError):
        await asyncio.sleep(1)
        site.control.recycle(ME)
        await asyncio.sleep(200)
        return site.control.status()["memory"]["recycled"]["schedule"] > 0
    return False


async def collector(place: str) -> bool:
    """Python's garbage collector is set for a server."""
    before = gc.get_threshold(), gc.get_freeze_count()
    site = Site(place, preset(2))
    await site.begin()
    await site.ask("a")
    changed = (gc.get_threshold(), gc.get_freeze_count()) != before
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.sleep(0)
    return changed


async def switch(place: str) -> bool:
    """Another preset is put in force while requests run."""
    if place == "simulator":
        result = simulate(at_once(6), preset(1), switches=[(0.01, preset(4).model_copy(update={"name": "wide"}))])
        return max(moment.running for moment in result.moments) > 1
    site = Site(place, preset(1))
    site.control.catalogue.include(preset(4).model_copy(update={"name": "wide"}))
    await site.begin()
    site.engine.most_running = 0
    asked = [asyncio.create_task(site.ask(f"{number}")) for number in range(4)]
    await asyncio.sleep(0.5)
    await site.control.switch("wide", expected_revision=None, caller=ME)
    await asyncio.gather(*asked)
    return bool(site.engine.most_running > 1)


PROBES: dict[str, Callable[[str], Awaitable[bool]]] = {
    "`[batching]` seats": seats,
    "`[batching]` strategy and window": window,
    "`[queue]` and the bounds of `[classes]`": queue_bounds,
    "`[limit]`, and `inter_token_slo_ms` of `[classes]`": limit,
    "`[ordering]` between classes": order_between,
    "`[ordering]` inside a class": order_inside,
    "`[classes]`: time-outs": time_outs,
    "`[classes]`: early refusal, by `ttft_slo_s`": early_refusal,
    "`[classes]`: a reserve of seats, stated or by `ttft_slo_s`": reserve,
    "`[warmup]`": warmup,
    "`[warmup]` keep-warm": keep_warm,
    "`[fallback]`: shorter answers, shedding": ladder,
    "`[fallback]`: another model": divert,
    "`[recovery]`: watch for hangs": watch,
    "`[recovery]`: restart": restart,
    "`[memory]`: seats, caches, recycle": recycle,
    "`[memory]`: Python's collector": collector,
    "a switch while requests run": switch,
}
#: These have no engine of their own, so nothing of these parts can be tried there.
WITHOUT_ENGINE = {"Batcher", "simulator"}
OF_AN_ENGINE = {part for part in PROBES if part.startswith(("`[warmup]", "`[fallback]", "`[recovery]", "`[memory]"))}
NOT_TRIED = {(part, place) for part in OF_AN_ENGINE for place in WITHOUT_ENGINE} | {(list(PROBES)[-1], "Batcher")}


def table() -> dict[tuple[str, str], bool]:
    """The README's table: whether each part acts in each place."""
    text = (ROOT / "plugin/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) " + r"\| (yes|-)(?!-)[^|]*" * len(PLACES) + r"\|$", text, re.M)
    return {(row[0], place): cell == "yes" for row in rows for place, cell in zip(PLACES, row[1:], strict=True)}


def test_the_table_has_every_part() -> None:
    """No probe without a row, no row without a probe; what cannot be tried is claimed nowhere."""
    cells = table()
    assert {part for part, _ in cells} == set(PROBES)
    assert not any(cells[cell] for cell in NOT_TRIED)


@pytest.mark.parametrize(
    ("part", "place"), [(part, place) for part in PROBES for place in PLACES if (part, place) not in NOT_TRIED]
)
def test_a_part_acts_where_the_table_says_so(part: str, place: str) -> None:
    """And nowhere else."""

    @on_virtual_time
    async def probe() -> None:
        assert await PROBES[part](place) is table()[part, place]

    probe()
