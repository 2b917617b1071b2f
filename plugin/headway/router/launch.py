"""``headway route``: the router's server, from its settings to its end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

import uvicorn
import uvloop

from headway.admission import loop_time_s
from headway.api_server import Settings
from headway.api_server.protocol import bound_protocol
from headway.errors import HeadwayError
from headway.http import hide_secrets
from headway.logs import JsonLines, keep_last_warnings
from headway.router.addresses import Address, DnsName
from headway.router.application import RouterService, router_service
from headway.router.engine import InstancesEngine
from headway.router.forwarding.exchange import InstanceClient
from headway.router.fronts import Fronts
from headway.router.heartbeat import Heartbeat
from headway.router.instances.discovery import Discovery
from headway.router.instances.instance import InstanceLink
from headway.router.instances.pool import InstancePool
from headway.router.tls import check_tls
from headway.settings import Environment
from headway_policies.routing import LeastLoaded

log = logging.getLogger(__name__)

_FORMAT: Final = "%(levelname)s %(asctime)s [headway/%(filename)s:%(lineno)d] %(message)s"


@dataclass(frozen=True, slots=True)
class RouteOptions:
    """The address of the router, and the instances behind it.

    The addresses of ``names`` are instances beside these. ``most`` is the number of instances that the limit of a
    preset is for where there are names. ``seats`` counts for an instance that does not say how many it has; ``drain_s``
    is the time that running requests have at the end. ``fronts`` are all that stand before the same instances, this one
    too; none where it is alone.
    """

    instances: Sequence[Address]
    host: str
    port: int
    seats: int
    drain_s: int
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    names: Sequence[DnsName] = ()
    most: int | None = None
    fronts: Sequence[Address] = ()


def route(options: RouteOptions) -> int:
    """Serve until stopped; returns the exit code. Raises HeadwayError or PresetError before anything listens."""
    set_up_log()
    settings = Settings.from_environment(instances=options.most or len(options.instances))
    key = Environment().instance_key
    check_tls(options.ssl_certfile, options.ssl_keyfile)
    uvloop.run(_serve(options, settings, None if key is None else key.text))
    return 0


async def _serve(options: RouteOptions, settings: Settings, key: str | None) -> None:
    client = InstanceClient(key)
    links = [InstanceLink(address, options.seats) for address in options.instances]
    pool = InstancePool(links, LeastLoaded(), loop_time_s, most=options.most)
    discovery = Discovery(pool, options.names, options.seats)
    try:
        await discovery.once()
        engine = InstancesEngine(pool, client)
        await Heartbeat(engine).once()
        engine.max_num_seqs = max(1, pool.most_seats(), (options.most or 0) * options.seats)
        fronts = Fronts(options.fronts, pool) if options.fronts else None
        router = router_service(settings, engine, pool.model(), fronts=fronts)
        if options.names:
            router.service.parts.tasks.start("instance names", discovery.run())
        await listen(options, settings, router)
    finally:
        await client.close()


async def listen(options: RouteOptions, settings: Settings, router: RouterService) -> None:
    """Serve until stopped, or until there is no engine any more. Raises HeadwayError where it cannot listen."""
    bound_protocol(settings.bounds)
    config = uvicorn.Config(
        router.application,
        host=options.host,
        port=options.port,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ssl_certfile=options.ssl_certfile,
        ssl_keyfile=options.ssl_keyfile,
        timeout_graceful_shutdown=options.drain_s,
    )
    if settings.keys_file is not None:
        router.service.parts.tasks.start("keys file", settings.keys_file.watch(router.service.control.keys_changed))
    await router.begin()
    desk = router.service.parts.gateway.gate.desk
    states = router.engine.pool.states()
    away = [state.name for state in states if not state.up]
    log.log(
        logging.WARNING if away else logging.INFO, "healthy instances: %d of %d%s; preset %s, %d seats (ceiling %d)",
        len(states) - len(away), len(states), f" (not {', '.join(away)})" if away else "",
        desk.preset.name, desk.limit, desk.ceiling or 0,
    )  # fmt: skip
    server = _Server(config, router)
    try:
        await server.serve()
    except SystemExit as ended:  # uvicorn's way to say that it could not listen
        raise HeadwayError(f"cannot listen on {options.host}:{options.port}") from ended
    finally:
        await router.end()


class _Server(uvicorn.Server):
    """A server that refuses waiting requests as soon as it is told to end; running ones have their time."""

    def __init__(self, config: uvicorn.Config, router: RouterService) -> None:
        super().__init__(config)
        self._router = router

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals as uvicorn does, but end well: a signal that stops a server does not kill the process."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    async def on_tick(self, counter: int) -> bool:
        """Whether to end: also where there is no engine any more, and none will follow."""
        return await super().on_tick(counter) or self._router.service.parts.gateway.link.engine_lost

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle SIGINT or SIGTERM."""
        self._router.service.parts.gateway.link.close_from_any_thread(None)
        super().handle_exit(sig, frame)


def set_up_log() -> None:
    """Write the log to the standard error, in the form that the environment asks for."""
    logging.basicConfig(level=logging.INFO, format=_FORMAT, datefmt="%m-%d %H:%M:%S")
    if Environment().log_format == "json":
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines())
    hide_secrets()
    keep_last_warnings()
