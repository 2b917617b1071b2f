"""The endpoint plugin: what Headway adds to each API server of vLLM before its socket listens.

The environment configures the plugin, because vLLM offers plugins no arguments (``--additional-config`` would change
the key of the compile cache): ``headway.settings`` lists all variables, ``headway.api_server`` reads them.

A request passes from the outside to the inside:

    RequestIds            an id of its own, and the trace it belongs to
    RequestLimits         bytes and time
    RouteGuard            the route, and the tenant by its key
    BatchRoutes           answers the routes of files and batches
    vLLM's own            CORS, authentication, metrics
    AdmissionMiddleware   what the request asks for, and the response that waits for an admission
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from prometheus_client.registry import Collector
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.admission import Gateway
from headway.api_server import Settings, protected
from headway.batches import start_batches
from headway.checks.start import check_start, inference_keys
from headway.engine_service import EngineService
from headway.errors import HeadwayError
from headway.http import AdmissionMiddleware, Bounds, hide_secrets, routes
from headway.http.inference import Retries, TenantCharges
from headway.logs import keep_last_warnings
from headway.operator import Control, Listed, ServerIdentity, follows_engine, stated_seats
from headway.operator.metrics import GrammarCollector
from headway.patches import in_force_words, switched_off
from headway.settings import Environment
from headway.tracing import queue_spans
from headway.vllm_adapter.engine_adapter import CallBounds, VllmAdapter
from headway.vllm_adapter.fail_fast import fail_fast
from headway.vllm_adapter.grammars.frames import Limits
from headway.vllm_adapter.grammars.guard import MOST_IN_LINE, GrammarGuard
from headway.vllm_adapter.logs.format import log_as_vllm_does, log_json_lines
from headway.vllm_adapter.logs.privacy import hide_content, warn_of_content
from headway.vllm_adapter.own_server_guard import OwnServerGuard
from headway.vllm_adapter.process.cpu_yield import is_short_of_cores
from headway.vllm_adapter.process.engine_replacer import VllmReplacer, replaceable
from headway.vllm_adapter.vllm_routes import log_routes
from headway.vllm_adapter.waiting_metric import WithQueue
from headway.vllm_adapter.warmup_requests import WarmupRequests
from headway_policies.preset import seat_words

log = logging.getLogger("headway.vllm_adapter.endpoint")

#: The most grammars of a tenant that wait for their check in one of several API servers: their requests occupy seats.
_MOST_SEATED = 8


class HeadwayEndpoint:
    """The plugin object that vLLM loads (vllm/plugins/endpoint_plugins/interface.py)."""

    name = "headway"
    required_tasks = None
    serving: Control | None = None  # of this process's server, for the launcher
    replaces_engine = False  # set by a launcher that lets the server outlive its engine

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._control: Control | None = None
        self._app: Any = None
        self._retries = Retries()
        self._truncated = Counter[str]()
        self._context_tokens: int | None = None
        self._guard: OwnServerGuard | None = None

    def attach_router(self, app: Any) -> None:
        """Add the routes, and the middleware as the innermost middleware: inside vLLM's authentication and metrics.

        The settings are read here and not in the constructor, for vLLM would log an error of the constructor and serve
        without Headway.
        """
        log_json_lines()
        log_as_vllm_does()
        hide_secrets()
        if Environment().behind_queue:
            self._guard = OwnServerGuard(app)
            return
        self._app, args = app, getattr(app.state, "args", None)
        if args is not None:
            check_start(args)
        self._settings = settings = Settings.from_environment()
        for counts in (self._retries.ended, self._truncated):
            counts.update(dict.fromkeys(settings.catalogue.class_names(), 0))
        app.router.routes.insert(0, Route("/metrics", self._metrics))
        app.router.routes.extend(routes(self._controlled, settings.tokens, require_reason=settings.require_reason))
        middleware = Middleware(
            AdmissionMiddleware,
            preset=lambda: self._controlled().preset,
            queue_full_status=settings.queue_full_status,
            fallback_controller=lambda: self._controlled().fallback_controller,
            rules=settings.request_rules,
            charges=TenantCharges(context_tokens=lambda: self._context_tokens, budgets=settings.budgets),
            retries=self._retries,
            spans=queue_spans(getattr(args, "otlp_traces_endpoint", None)),
            truncated=self._truncated,
        )
        app.user_middleware.append(middleware)

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:
        """Turn the engine client into a policy client, warm it up, and only then let vLLM listen.

        Where the warm-up fails vLLM listens all the same: the server is not ready, and retries the warm-up.
        """
        if self._guard is not None:
            hide_content()
            found = Environment()
            grammars = _grammar_guard(engine_client.vllm_config, found.max_grammar_seconds, _MOST_SEATED)
            self._guard.serve(engine_client, CallBounds(found.max_prompt_logprobs, grammars))
            _fail_fast(self._guard.app)
            return
        settings = self._settings
        if settings is None:
            return
        hide_content()
        warn_of_content()
        keep_last_warnings("vllm")
        self._context_tokens = _context_tokens(engine_client)
        self._guard_requests(settings, args)
        if engine_client is None:
            return
        catalogue = settings.catalogue
        replacer = VllmReplacer(engine_client) if self.replaces_engine and replaceable(engine_client) else None
        grammars = _grammar_guard(engine_client.vllm_config, settings.grammar_s)
        service = EngineService(
            engine_client,
            VllmAdapter(CallBounds(settings.prompt_logprobs, grammars)),
            settings.preset,
            catalogue,
            registry=REGISTRY,
            identity=_identity(args, engine_client.vllm_config),
            max_request_seats=settings.max_request_seats,
            source=WarmupRequests(engine_client),
            warm_up=settings.warm,
            replacer=replacer,
            other_model=settings.fallback,
            usage=settings.usage,
            batches=list if settings.batches is None else settings.batches.rows,
        )
        control, gateway = service.control, service.parts.gateway
        self._control = HeadwayEndpoint.serving = state.headway = control
        control.audit.write_to(settings.audit_file)
        if settings.keys_file is not None:
            service.parts.tasks.start("keys file", settings.keys_file.watch(control.keys_changed))
        if grammars is not None:
            REGISTRY.register(GrammarCollector(grammars.verdicts, lambda: grammars.compiling))
            service.parts.tasks.start("grammars", grammars.run())
        ceiling = control.status().limit.ceiling
        _log_degraded_modes(catalogue.largest(), ceiling, args)
        _log_prefix_caching_off(catalogue, engine_client.vllm_config)
        if replacer is None:
            atexit.register(_exit_with_error_without_engine, gateway)
        await service.serve()
        if settings.batches is not None:
            start_batches(settings.batches, self._app, control, service.parts.tasks)
        atexit.register(service.close_usage)  # after the exit above, as all that is to run before it
        _log_in_force(control, ceiling)

    def _guard_requests(self, settings: Settings, args: Namespace) -> None:
        """Wrap the application in the guards of bytes, time and routes, outside of every other middleware.

        The stack is wrapped as it is, for vLLM's build of the application may have made it already. ``args`` are the
        server's own: uvicorn is started with them after this.
        """
        app = self._app
        prompt_embeds = bool(getattr(args, "enable_prompt_embeds", False))
        bounds = replace(settings.bounds, prompt_embeds=prompt_embeds, context_tokens=self._context_tokens)
        app.middleware_stack = protected(
            app.middleware_stack or app.build_middleware_stack(),
            settings,
            bounds,
            lambda: self._controlled().preset,
            self._retries.ended,
            self._truncated,
            inference_keys(args, os.environ),
        )
        _bound_server(bounds, args)
        _fail_fast(app)
        log_routes(app, settings.route_table)

    async def _metrics(self, request: Request) -> Response:
        """Answer within one turn of the event loop, for figures of one moment: vLLM's own route works in a thread."""
        from vllm.v1.metrics.prometheus import get_prometheus_registry

        registry: Collector = get_prometheus_registry()
        if self._settings is not None and self._settings.vllm_waiting and self._control is not None:
            ledger = self._control.gateway.gate.desk.ledger
            registry = WithQueue(registry, lambda: ledger.queued)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    def _controlled(self) -> Control:
        if self._control is None:
            raise HeadwayError("the engine has not started yet")
        return self._control


def _needless_patches() -> Iterator[str]:
    if not is_short_of_cores():
        yield "cpu-yield"
    if Environment().log_format != "json":
        yield "json-lines"


def _fail_fast(app: Any) -> None:
    if "fail-fast" not in switched_off():
        fail_fast(app)


def _grammar_guard(vllm_config: Any, processor_s: int, most_in_line: int = MOST_IN_LINE) -> GrammarGuard | None:
    """The guard of grammars; None where grammars are not to be checked, or no tokenizer can compile them."""
    if not processor_s or vllm_config.model_config.skip_tokenizer_init:
        return None
    return GrammarGuard(vllm_config, Limits.of_processor(processor_s), most_in_line=most_in_line)


def _context_tokens(engine_client: Any) -> int | None:
    """The longest prompt of the model; None where there is no engine, or the engine does not say."""
    tokens = getattr(getattr(engine_client, "model_config", None), "max_model_len", None)
    return tokens if isinstance(tokens, int) else None


def _bound_server(bounds: Bounds, args: Namespace) -> None:
    """Bound what uvicorn reads before it asks the application. Without httptools it uses h11, which has an option."""
    args.h11_max_incomplete_event_size = min(
        getattr(args, "h11_max_incomplete_event_size", None) or bounds.max_header_bytes, bounds.max_header_bytes
    )
    args.h11_max_header_count = min(
        getattr(args, "h11_max_header_count", None) or bounds.max_header_fields, bounds.max_header_fields
    )
    try:
        from headway.api_server.protocol import bound_protocol
    except ImportError:
        return
    bound_protocol(bounds)


def _exit_with_error_without_engine(gateway: Gateway) -> None:
    """Exit with 1 at the end where the engine died: vLLM exits with 0, and its process manager would not restart it."""
    if gateway.link.engine_lost:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _identity(args: Namespace, vllm_config: Any) -> ServerIdentity:
    names, device = model_names(args), str(vllm_config.device_config.device_type)
    return ServerIdentity(names[0], device, frozenset(names), frozenset(adapter_names(args)))


def model_names(args: Namespace) -> list[str]:
    """The names of the model itself, the public one first."""
    return [str(name) for name in getattr(args, "served_model_name", None) or [getattr(args, "model", "")]]


def adapter_names(args: Namespace) -> list[str]:
    """The names of the adapters (LoRA) that the server is started with."""
    return [str(module.name) for module in getattr(args, "lora_modules", None) or ()]


def _log_in_force(control: Control, ceiling: int) -> None:
    """Log the patches, the bounds of this engine, and the preset with its seats."""
    log.info("%s", in_force_words(switched_off(), _needless_patches()))
    for words in control.seat_bounds(control.preset).words:
        log.info("bounds: %s", words)
    preset, seats = control.preset, control.gateway.gate.desk.limit
    log.info(
        "preset %s in force: %d seats (ceiling %d): %s",
        preset.name, seats, ceiling, seat_words(preset.settings(), ceiling),
    )  # fmt: skip


def _log_degraded_modes(largest: Listed, ceiling: int, args: Namespace) -> None:
    """Warn of each thing that this server cannot do. ``largest`` is the preset that states the most seats."""
    wanted = stated_seats(largest.preset)
    if ceiling < wanted:
        log.warning(
            "the engine has %d seats at most, but preset %s (%s) %s %d; start with --max-num-seqs %d to use them",
            ceiling, largest.preset.name, largest.source,
            "starts at" if follows_engine(largest.preset) else "asks for", wanted, wanted,
        )  # fmt: skip
    if (getattr(args, "api_server_count", None) or 1) > 1 or "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        log.warning(
            "several API servers: each has a queue of its own, and /metrics lacks the ticket counts; "
            "headway serve --api-server-count N has one queue for all of them"
        )
    warn_of_flags(args)


def warn_of_flags(args: Namespace) -> None:
    """Warn of each flag that takes something from the desk, and of the flag that it lacks."""
    if getattr(args, "disable_log_stats", False):
        log.warning(
            "--disable-log-stats: adaptive limits do not adapt, and first-token and stall time-outs may end requests "
            "without a stream, whose tokens cannot be seen; remove the flag"
        )
    if getattr(args, "scheduling_policy", None) != "priority":
        log.warning("without --scheduling-policy priority a shortage of KV space may preempt urgent requests")


def _log_prefix_caching_off(catalogue: Iterable[Listed], vllm_config: Any) -> None:
    """Warn where a preset orders by cached prefixes and the engine caches none."""
    ordering = next((listed for listed in catalogue if listed.preset.ordering.by_prefix), None)
    caches = getattr(getattr(vllm_config, "cache_config", None), "enable_prefix_caching", None)
    if ordering is not None and caches is False:
        log.warning(
            'preset %s (%s) orders by cached prefixes (inside = "prefix"), but the engine caches none; start with '
            "--enable-prefix-caching, or use inside = \"fair\"", ordering.preset.name, ordering.source,
        )  # fmt: skip
