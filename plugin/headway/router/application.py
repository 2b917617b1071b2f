"""The application of the router: the forwarded routes behind the same gate, admin API and protection as one engine."""

from __future__ import annotations

import atexit
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headway.admission import Gate
from headway.api_server import Settings, protected
from headway.batches import Batches, start_batches
from headway.engine_service import EngineService
from headway.http import AdmissionMiddleware, routes
from headway.http.inference import Retries, TenantCharges
from headway.operator import Control, Fleet, ServerIdentity, arrivals_file, scaling_from_environment
from headway.router.adapter import InstancesAdapter
from headway.router.endpoint import ForwardEndpoint
from headway.router.engine import InstancesEngine
from headway.router.engine_metrics import EngineMetrics
from headway.router.fronts import Fronts
from headway.router.heartbeat import Heartbeat
from headway.router.instances.metrics import InstancesCollector
from headway.router.instances.pool import InstancePool
from headway.router.warmup_requests import InstanceWarmupRequests
from headway.supervision import Replacer
from headway_policies import Block

#: The warm-up of instances that others may use as well does not keep their router from serving.
_WARM_UP_WITHIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class RouterService:
    """The parts of one router: ``application`` answers, ``service`` has the desk, ``heartbeat`` asks the instances.

    ``warmup_requests`` can warm the instances up, and do so before the first request where it ``warms``. ``fronts`` are
    all that stand before the instances, None where this one is alone. ``batches`` are None where there is no folder for
    them.
    """

    application: ASGIApp
    service: EngineService
    engine: InstancesEngine
    heartbeat: Heartbeat
    warmup_requests: InstanceWarmupRequests
    warms: bool
    fronts: Fronts | None = None
    batches: Batches | None = None

    async def begin(self) -> None:
        """Start the background work: before the first request."""
        atexit.register(self.service.close_usage)  # where a second signal leaves no time for the end below
        self.engine.pool.on_change = partial(open_seats, self.service.parts.gateway.gate, self.engine.pool)
        self.engine.pool.on_change()
        self.service.parts.tasks.start("instances", self.heartbeat.run())
        if self.fronts is not None:
            self.fronts.desk = self.service.parts.gateway.gate.desk
            await self.fronts.once()
            self.service.parts.tasks.start("fronts", self.fronts.run())
        await self.service.serve()
        if self.batches is not None:
            start_batches(self.batches, self.application, self.service.control, self.service.parts.tasks)
        if self.warms and self.engine.pool.model() and self.engine.pool.open_seats():
            await self.service.warm_beside_traffic(_WARM_UP_WITHIN_S)
            if not self.warmup_requests.only_measures:
                self.service.parts.gateway.gate.warmed_up()
        self.warmup_requests.only_measures = False  # a later one is an operator's, who knows why

    async def end(self) -> None:
        """Stop the background work, and close the connections to the instances."""
        self.service.parts.tasks.stop_all()
        self.service.close_usage()
        await self.engine.client.close()
        if self.fronts is not None:
            await self.fronts.close()


def open_seats(gate: Gate, pool: InstancePool) -> None:
    """Open as many seats as the healthy instances have free or filled by this front, and none without one."""
    present, elsewhere = pool.presence()
    gate.bound_seats(pool.open_seats(), present=present, elsewhere=elsewhere, front=pool.front_share())
    healthy = any(True for _ in pool.healthy())
    if not healthy and Block.NO_INSTANCE not in gate.desk.mode.blocks:
        gate.pause(Block.NO_INSTANCE)
    elif healthy and Block.NO_INSTANCE in gate.desk.mode.blocks:
        gate.resume(Block.NO_INSTANCE)


@dataclass(frozen=True, slots=True)
class OwnEngine:
    """The parts of a server that this process has started and can replace."""

    adapter: InstancesAdapter
    identity: ServerIdentity
    replacer: Replacer
    api_keys: Sequence[str]


def router_service(
    settings: Settings,
    engine: InstancesEngine,
    model: str,
    own: OwnEngine | None = None,
    fronts: Fronts | None = None,
) -> RouterService:
    """The service in front of these instances, which were asked once before: their seats are the ceiling.

    ``own`` is the only instance, where this process has started it; None where they belong to others.
    """
    source = InstanceWarmupRequests(engine)
    service = EngineService(
        engine,
        InstancesAdapter() if own is None else own.adapter,
        settings.preset,
        settings.catalogue,
        registry=REGISTRY,
        identity=ServerIdentity(model, "router") if own is None else own.identity,
        max_request_seats=settings.max_request_seats,
        other_model=settings.fallback,
        replacer=None if own is None else own.replacer,
        fleet=_fleet(engine) if own is None else None,
        source=source,
        usage=settings.usage,
        batches=list if settings.batches is None else settings.batches.rows,
    )
    control = service.control
    control.audit.write_to(settings.audit_file)
    REGISTRY.register(InstancesCollector(engine.pool))
    retries, truncated = Retries(), Counter[str]()
    for counts in (retries.ended, truncated):
        counts.update(dict.fromkeys(settings.catalogue.class_names(), 0))
    of_engine, health = None if own is None else EngineMetrics(engine), _Health(engine).answer
    answered_here = [
        Route("/metrics", _Metrics(of_engine).answer),
        Route("/health", health),
        Route("/ping", health, methods=["GET", "POST"]),
        *([] if fronts is None else [fronts.route]),
    ]
    forwarded = ForwardEndpoint(lambda: engine).routes()
    application = Starlette(
        routes=[
            *answered_here,
            *routes(lambda: control, settings.tokens, require_reason=settings.require_reason),
            *forwarded,
        ],
        middleware=[_admission(settings, engine, control, retries, truncated)],
    )
    api_keys = [key for key in [os.environ.get("VLLM_API_KEY")] if key] if own is None else own.api_keys
    counts_of_http = (retries.ended, truncated)
    guarded = protected(application, settings, settings.bounds, lambda: control.preset, *counts_of_http, api_keys)
    return RouterService(guarded, service, engine, Heartbeat(engine), source, settings.warm, fronts, settings.batches)


def _admission(
    settings: Settings, engine: InstancesEngine, control: Control, retries: Retries, truncated: Counter[str]
) -> Middleware:
    """The middleware that reads each request and lets its response wait for an admission."""
    return Middleware(
        AdmissionMiddleware,
        preset=lambda: control.preset,
        queue_full_status=settings.queue_full_status,
        fallback_controller=lambda: control.fallback_controller,
        rules=settings.request_rules,
        charges=TenantCharges(context_tokens=engine.pool.context_tokens, budgets=settings.budgets),
        retries=retries,
        truncated=truncated,
        forwards=True,
    )


@dataclass(frozen=True, slots=True)
class _Health:
    engine: InstancesEngine

    async def answer(self, request: Request) -> Response:
        """200 while an instance is healthy, as vLLM's own health route."""
        healthy = any(True for _ in self.engine.pool.healthy())
        return Response(status_code=HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class _Metrics:
    of_engine: EngineMetrics | None

    async def answer(self, request: Request) -> Response:
        """The metrics of this process, and of the server that it has started, where there is one."""
        text = generate_latest(REGISTRY).decode()
        if self.of_engine is not None:
            text += await self.of_engine.beside(text)
        return Response(text, media_type=CONTENT_TYPE_LATEST)


def _fleet(engine: InstancesEngine) -> Fleet:
    settings = scaling_from_environment(os.environ, len(engine.pool.links))
    return Fleet(settings, engine.pool.working, lambda: arrivals_file(engine.pool.model()), engine.pool.states)
