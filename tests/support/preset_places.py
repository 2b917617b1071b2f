"""The same scene in each place where a preset may be in force, on virtual time, around fakes of the engine.

Everything of Headway is real and put together as the place does it: ``EngineService`` behind the middleware for a
server, ``router_service`` for a router, ``headway.wrap`` for a program, ``simulate``. Fakes are the engine, the HTTP
client of instances, the readings of memory and GPUs, the thread in which these are made, and Python's collector.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, aclosing, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

from preset_machine import (
    SEATS,
    Asked,
    Engine,
    Instance,
    Machine,
    OwnParams,
    Scene,
    SilentEngine,
    VllmLike,
    WarmupSource,
)
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from tiers import LONG
from virtual_time import new_loop

import headway
import headway_simulator as simulator
from headway.admission import loop_time_s
from headway.api_server import Settings, protected
from headway.engine import PlainAdapter
from headway.engine.fake import FakeEngine, FakeParams
from headway.engine_service import EngineService
from headway.errors import HeadwayError, Refused
from headway.fallback.fixed_reply import FixedReply
from headway.http import AdmissionMiddleware
from headway.router.addresses import Address
from headway.router.application import router_service
from headway.router.engine import InstancesEngine
from headway.router.heartbeat import Heartbeat
from headway.router.instances.instance import InstanceLink
from headway.router.instances.pool import InstancePool
from headway.supervision import FactoryReplacer
from headway.supervision.memory.processes import MachineUse, ProcessReading
from headway_policies import Preset
from headway_policies.preset import Place
from headway_policies.routing import LeastLoaded


class Site:
    """One place with its engine: how to begin, and how to ask. ``bare``: without anything that is optional there."""

    def __init__(self, place: Place, preset: Preset, scene: Scene, *, bare: bool) -> None:
        self.machine = Machine(scene, SilentEngine if bare else Engine)
        self._bare = bare
        self.begin, self.ask = {
            Place.SERVE: self._server,
            Place.PLAIN: self._server,
            Place.ROUTE: self._router,
            Place.WRAP: self._program,
        }[place](place, preset)

    # ------------------------------------------------------------------ the places

    def _server(self, place: Place, preset: Preset) -> tuple[Any, Any]:
        engine, settings, adapter = self.machine.engine(), _settings(preset), VllmLike()
        replacer = FactoryReplacer(engine, self.machine.engine) if place is Place.SERVE else None
        service = EngineService(
            engine,
            adapter,
            settings.preset,
            settings.catalogue,
            source=WarmupSource(engine),
            warm_up=self.machine.scene.warm,
            replacer=replacer,
            other_model=settings.fallback,
        )
        if replacer is not None:
            replacer.replaced = lambda: adapter.listen(engine, service.parts.activity)
        self.control = control = service.control
        middleware = Middleware(
            AdmissionMiddleware,
            preset=lambda: control.preset,
            fallback_controller=lambda: control.fallback_controller,
            rules=settings.request_rules,
        )
        inner = Starlette(
            routes=[Route("/v1/completions", _handler(engine), methods=["POST"])], middleware=[middleware]
        )
        return service.serve, self._over_http(
            protected(inner, settings, settings.bounds, lambda: control.preset, {}, {})
        )

    def _router(self, place: Place, preset: Preset) -> tuple[Any, Any]:
        self.machine.engine()
        pool = InstancePool([InstanceLink(Address("a", "http://a"), SEATS)], LeastLoaded(), loop_time_s)
        engine = InstancesEngine(pool, Instance(self.machine))  # type: ignore[arg-type]
        self._asked_once = False

        async def begin() -> None:
            await Heartbeat(engine).once()
            engine.max_num_seqs = max(1, pool.most_seats())
            router = router_service(_settings(preset, instances=1, warm=self.machine.scene.warm), engine, pool.model())
            self.control, self.ask = router.service.control, self._over_http(router.application)
            await router.begin()

        return begin, None

    def _program(self, place: Place, preset: Preset) -> tuple[Any, Any]:
        engine = self.machine.engine()
        options: dict[str, Any] = {
            "warmup": lambda request_id: engine.generate([1], OwnParams(1), request_id),
            "fallback": FakeEngine(step_s=1.0),
            "engine_factory": self.machine.engine,
        }
        wrapped = headway.wrap(engine, preset, **({} if self._bare else options))
        self.control = wrapped.headway

        async def begin() -> None:
            self.control.gateway.link.begin()
            if not self._bare:
                with suppress(HeadwayError):
                    await self.control.warm_up()

        async def ask(asked: Asked) -> tuple[str, int]:
            made, outcome = 0, "ok"
            try:
                async for output in wrapped.generate(
                    asked.prompt, FakeParams(asked.tokens), asked.name, priority=asked.class_name, tenant=asked.tenant
                ):
                    made = len(output.tokens)
            except Refused as refused:
                outcome = refused.reason.value
            except RuntimeError as error:
                outcome = type(error).__name__
            return outcome, made

        return begin, ask

    @staticmethod
    def _over_http(application: Any) -> Callable[[Asked], Any]:
        async def ask(asked: Asked) -> tuple[str, int]:
            tier = {} if asked.tier is None else {"service_tier": asked.tier}
            content = {"prompt": asked.prompt, "max_tokens": asked.tokens, "stream": True, **tier}
            body = json.dumps(content).encode()
            headers = {"content-type": "application/json", "content-length": str(len(body))}
            headers["x-headway-tenant"] = asked.tenant
            if asked.class_name is not None:
                headers["x-headway-class"] = asked.class_name
            return await _exchange(application, body, headers)

        return ask


def play(place: Place, preset: Preset, scene: Scene, *, bare: bool = False) -> tuple[list[Any], list[str]]:
    """What can be seen from outside, and the lines on what has no effect there."""
    if place is Place.SIMULATE:
        return _simulated(preset, scene), []
    with (
        ExitStack() as fakes,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        return runner.run(_played(place, preset, scene, fakes, bare=bare))


# ---------------------------------------------------------------------- inside


#: In the short form what is done five times in each second of virtual time is done once.
_FEWER_ROUNDS: Mapping[str, Any] = {
    "headway.fallback.controller.UPDATE_S": 1.0,
    "headway.supervision.supervisor.POLL_S": 1.0,
}


async def _played(
    place: Place, preset: Preset, scene: Scene, fakes: ExitStack, *, bare: bool
) -> tuple[list[Any], list[str]]:
    site_machine: list[Machine] = []
    for target, value in {
        "headway.router.application.REGISTRY": CollectorRegistry(),
        "headway.api_server.protection.REGISTRY": CollectorRegistry(),
        "headway.supervision.memory.probe.read_processes": lambda: {
            "api_server": ProcessReading(site_machine[0].server_bytes),
            "engine": ProcessReading(site_machine[0].engine_bytes),
        },
        "headway.supervision.memory.probe.memory_usage_ratio": lambda own_bytes: 0.5,
        "headway_policies.memory.policy._REPLACE_AGAIN_S": 30.0,  # else ten minutes, of many rounds
        **({} if LONG else _FEWER_ROUNDS),
        "headway.supervision.memory.probe.ProcessorUse": lambda: SimpleNamespace(machine=lambda _: MachineUse()),
        "headway.supervision.memory.probe.Gpus": lambda: SimpleNamespace(read_of=lambda _: _cards(site_machine[0])),
        "headway.supervision.memory.maintenance.GcControl": lambda pauses: mock.Mock(),
        "headway.wrapping.adapter_of": lambda engine: PlainAdapter() if bare else VllmLike(),
        "asyncio.to_thread": _at_once,
    }.items():
        fakes.enter_context(mock.patch(target, value))
    fakes.enter_context(mock.patch.dict(os.environ, {"HEADWAY_TRUSTED_PROXIES": "127.0.0.1"}))
    site = Site(place, preset, scene, bare=bare)
    site_machine.append(site.machine)
    await site.begin()
    began_s, seen = loop_time_s(), list[Any]()
    site.machine.began_s = began_s
    if not scene.warm:
        site.machine.log.clear()

    async def ask(asked: Asked) -> None:
        await asyncio.sleep(asked.at_s)
        outcome, made = await site.ask(asked)
        seen.append((asked.name, outcome, made, round(loop_time_s() - began_s, 2)))

    async def change(at_s: float, name: str, value: Any) -> None:
        await asyncio.sleep(at_s)
        if callable(known := getattr(site.machine, name)):
            known()
        else:
            setattr(site.machine, name, value)

    await asyncio.gather(*map(ask, scene.asked), *(change(*event) for event in scene.events))
    await asyncio.sleep(scene.rest_s)
    status = site.control.status()
    memory = {"cleared": status.memory.cleared, "recycled": status.memory.recycled}
    lines = status.preset.no_effect
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*others, return_exceptions=True)
    return [sorted(seen), site.machine.log, memory], lines


def _simulated(preset: Preset, scene: Scene) -> list[Any]:
    requests = [
        simulator.Request(
            one.at_s,
            one.class_name or "-",
            one.prompt_tokens,
            one.tokens,
            one.tokens,
            one.tenant,
            one.prefix,
            one.prompt_tokens - 4 if one.prefix else 0,
        )
        for one in scene.asked
    ]
    model = simulator.EngineModel(
        base_s=scene.step_s,
        seat_s=scene.seat_s,
        prefill_s=scene.prefill_s,
        max_num_seqs=SEATS,
        kv_tokens=scene.kv_tokens,
        prefix_cache=any(one.prefix for one in scene.asked),
    )
    visits = simulator.simulate(requests, preset, model).visits
    return [(one.class_name, one.dispatched_s, one.first_s, one.ended_s, one.reason, one.made_tokens) for one in visits]


def _settings(preset: Preset, *, instances: int | None = None, warm: bool = False) -> Settings:
    usual = _usual_settings(instances)
    return replace(usual, preset=usual.catalogue.include(preset), fallback=FixedReply("busy"), warm=warm)


@functools.cache
def _usual_settings(instances: int | None) -> Settings:
    """With one catalogue for all scenes: each preset has the name of the last one."""
    return Settings.from_environment(instances=instances)


def _handler(engine: Any) -> Callable[[Request], Any]:
    """The route of a server in front of its engine, as vLLM's: nothing is sent before the first output."""

    async def complete(request: Request) -> Response:
        asked = await request.json()
        outputs = engine.generate(asked["prompt"], FakeParams(asked["max_tokens"]), os.urandom(8).hex())

        async def events() -> AsyncGenerator[str, None]:
            async with aclosing(outputs):
                async for _ in outputs:
                    yield 'data: {"choices": [{"text": "a"}]}\n\n'
            yield "data: [DONE]\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    return complete


async def _exchange(application: Any, body: bytes, headers: Mapping[str, str]) -> tuple[str, int]:
    """Ask an application, stay to the end, and return the outcome with the number of events that have text."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/v1/completions", "raw_path": b"/v1/completions", "query_string": b"", "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {},
    }  # fmt: skip
    messages, sent = [{"type": "http.request", "body": body}], list[Any]()

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        sent.append(message)

    try:
        await application(scope, receive, send)
    except RuntimeError as error:
        return type(error).__name__, 0
    text = b"".join(one.get("body", b"") for one in sent)
    said = dict(sent[0]["headers"]).get(b"x-headway-reason", b"").decode()
    failed = "error" if b'"error"' in text else "ok"
    return said or f"{sent[0]['status']} {failed}", text.count(b'"text"')


def _cards(machine: Machine) -> list[Any]:
    if machine.gpu_use is None:
        return []
    return [SimpleNamespace(used_bytes=machine.gpu_use, total_bytes=1.0, busy_ratio=None)]


async def _at_once(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)
