"""``headway serve`` with vLLM's own launcher in a child process: the queue before it, from start to end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import uvloop

from headway.admission import loop_time_s
from headway.api_server import Settings
from headway.checks.start import uses_rust
from headway.errors import NoEngineError
from headway.operator import ServerIdentity
from headway.own_server.engine import ADDRESS, OwnServerAdapter, OwnServerReplacer, wait_until_up
from headway.own_server.process import USAGE, ArgumentsRefusedError, OwnServer
from headway.patches import switched_off
from headway.router.application import OwnEngine, router_service
from headway.router.engine import InstancesEngine
from headway.router.forwarding.exchange import InstanceClient
from headway.router.heartbeat import Heartbeat
from headway.router.instances.instance import InstanceLink
from headway.router.instances.pool import InstancePool
from headway.router.launch import RouteOptions, listen, set_up_log
from headway.router.tls import check_tls
from headway.vllm_adapter.process.death_cause import forget_death_cause, prepare_death_cause
from headway.vllm_adapter.process.interrupted_start import INTERRUPTED, TERMINATED
from headway.vllm_adapter.process.limits_page import LimitsPage
from headway.vllm_adapter.process.parent_watch import remove_at_the_end, watch_this_process
from headway.vllm_adapter.process.progress import ProgressReader, prepare_progress
from headway.vllm_adapter.process.step_ring import StepRingReader
from headway_policies.routing import LeastLoaded

log = logging.getLogger(__name__)

_END_WITHIN_S: Final = 5.0


def serve(words: Sequence[str]) -> int:
    """Serve with these words of ``vllm serve`` until stopped; returns the exit code.

    Raises NoEngineError, HeadwayError or PresetError with one line when the server does not start.
    """
    set_up_log()
    settings = Settings.from_environment(instances=1)
    watch_this_process()
    remove_at_the_end(prepare_death_cause())
    prepare_progress()
    try:
        return uvloop.run(_until_stopped(words, settings))
    finally:
        forget_death_cause()


async def _until_stopped(words: Sequence[str], settings: Settings) -> int:
    """Serve; a signal before the server listens ends it at once. Returns the exit code."""
    loop, code = asyncio.get_running_loop(), 0
    serving = asyncio.ensure_future(_serve(words, settings))

    def interrupt(ended: int) -> None:
        nonlocal code
        code = ended
        serving.cancel()

    loop.add_signal_handler(signal.SIGTERM, interrupt, TERMINATED)
    loop.add_signal_handler(signal.SIGINT, interrupt, INTERRUPTED)
    try:
        await serving
    except asyncio.CancelledError:
        sys.stderr.write("headway: stopped before the server was ready\n")
    except ArgumentsRefusedError as error:
        sys.stderr.write(f"headway: error: {error}\n")
        return USAGE
    return code


async def _serve(words: Sequence[str], settings: Settings) -> None:
    server = OwnServer(words)
    client = InstanceClient(None, server.socket)
    within_s = 0.0
    try:
        said = await server.start()
        options = _options(said)
        check_tls(options.ssl_certfile, options.ssl_keyfile)
        facts = await wait_until_up(server, client)
        link = InstanceLink(ADDRESS, facts.seats, exclusive=True)
        steps = None if "step-ring" in switched_off() else StepRingReader.from_environment(facts.ranks)
        engine = InstancesEngine(InstancePool([link], LeastLoaded(), loop_time_s), client, server, steps)
        server.on_dead = engine.engine_gone
        await Heartbeat(engine).once()
        page = None if "limits-page" in switched_off() else LimitsPage.from_environment()
        adapter = OwnServerAdapter(facts, ProgressReader.from_environment(), page)
        replacer = OwnServerReplacer(server, engine)
        names, adapters = said["names"], said["adapters"]
        identity = ServerIdentity(names[0], facts.device, frozenset(names), frozenset(adapters))
        own = OwnEngine(adapter, identity, replacer, said["api_keys"])
        bounds = replace(
            settings.bounds, prompt_embeds=said["prompt_embeds"], context_tokens=facts.settings.max_model_len
        )
        router = router_service(replace(settings, bounds=bounds), engine, identity.model, own)
        log.info("one queue for all API servers of an engine with %d seats", facts.seats)
        if uses_rust(os.environ):
            log.warning("vLLM's front end in Rust loads no plugin: grammars are not checked before the engine has them")
        await listen(options, settings, router)
        within_s = _END_WITHIN_S
        if router.service.parts.gateway.link.engine_lost:
            raise NoEngineError("the engine died while it was serving; the cause is in the log above")
    finally:
        await server.end(within_s)
        await client.close()


def _options(said: Mapping[str, Any]) -> RouteOptions:
    """The address and the form in which to listen, by the arguments of the server."""
    return RouteOptions(
        (), said["host"] or "0.0.0.0", said["port"], 1, said["drain_s"],  # noqa: S104  # nosec B104 - vLLM's default
        said["ssl_certfile"], said["ssl_keyfile"],
    )  # fmt: skip
