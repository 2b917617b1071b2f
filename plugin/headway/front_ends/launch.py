"""``headway serve --api-server-count N``: the desk before the API servers of one engine, from start to end."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from headway.api_server import Settings
from headway.errors import NoEngineError
from headway.front_ends.engine import GroupAdapter, GroupReplacer, addresses_of, engine_of, wait_until_up
from headway.front_ends.group import USAGE, ArgumentsRefusedError, Group
from headway.router.application import OneEngine, router_service
from headway.router.credentials import check_tls
from headway.router.exchange import InstanceClient
from headway.router.heartbeat import Heartbeat
from headway.router.launch import RouteOptions, listen, set_up_log
from headway.vllm_adapter.process.death_cause import forget_death_cause, prepare_death_cause
from headway.vllm_adapter.process.interrupted_start import INTERRUPTED, TERMINATED
from headway.vllm_adapter.process.parent_watch import watch_this_process
from headway.vllm_adapter.process.progress import prepare_progress

log = logging.getLogger(__name__)

_END_WITHIN_S: Final = 5.0


def serve(words: Sequence[str], count: int) -> int:
    """Serve with these words of ``vllm serve`` and so many API servers until stopped; returns the exit code.

    Raises NoEngineError, HeadwayError or PresetError with one line when the server does not start.
    """
    set_up_log()
    settings = Settings.from_environment(instances=1)
    watch_this_process()
    prepare_death_cause()
    prepare_progress()
    try:
        return asyncio.run(_until_stopped(words, count, settings))
    finally:
        forget_death_cause()


async def _until_stopped(words: Sequence[str], count: int, settings: Settings) -> int:
    """As ``_serve``; a signal before the server listens ends it at once."""
    loop, code = asyncio.get_running_loop(), 0
    serving = asyncio.ensure_future(_serve(words, count, settings))

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


async def _serve(words: Sequence[str], count: int, settings: Settings) -> None:
    group = Group(words, count)
    client = InstanceClient(group.key)
    within_s = 0.0
    try:
        said = await group.start()
        options = _options(said)
        check_tls(options.ssl_certfile, options.ssl_keyfile)
        addresses = addresses_of(said)
        try:
            facts = await wait_until_up(group, client, addresses)
        except NoEngineError as error:
            raise NoEngineError(str(error)) from None
        engine = engine_of(group, client, addresses, facts)
        await Heartbeat(engine).once()
        one = OneEngine(GroupAdapter(facts), facts.device, GroupReplacer(group, engine), said["api_keys"])
        bounds = replace(
            settings.bounds, prompt_embeds=said["prompt_embeds"], context_tokens=facts.settings.max_model_len
        )
        router = router_service(replace(settings, bounds=bounds), engine, said["model"], one)
        log.info("one desk for %d API servers of one engine with %d seats", count, facts.seats)
        await listen(options, settings, router)
        within_s = _END_WITHIN_S
        if router.service.parts.gateway.link.engine_lost:
            raise NoEngineError("the engine died while it was serving; the cause is in the log above")
    finally:
        await group.end(within_s)
        await client.close()


def _options(said: Mapping[str, Any]) -> RouteOptions:
    """Where to listen, and how, by the arguments of the group."""
    return RouteOptions(
        (), said["host"] or "0.0.0.0", said["port"], 1, said["drain_s"],  # noqa: S104  # nosec B104 - vLLM's default
        said["ssl_certfile"], said["ssl_keyfile"],
    )  # fmt: skip
