"""The processes of several API servers in front of one engine: each on a socket of its own, and each may die alone.

vLLM's launcher gives all its API servers one socket, and ends them all with the first that dies
(``vllm.v1.utils``). Here two of its names are replaced, in the process that starts them:

    vllm.v1.utils.run_api_server_worker_proc                     listens on the socket of its ``client_index``
    vllm.entrypoints.cli.serve.wait_for_completion_or_failure    goes on while one API server and all engines live

Nothing of vLLM is imported before it is needed: a process that only reads this file has no use for it.
"""

from __future__ import annotations

import importlib
import logging
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection
from typing import Any, Final

from headway.vllm_adapter.process.core_start import family, kill

log = logging.getLogger(__name__)

#: (module, name) of what is replaced, and read by the contract tests.
WORKER: Final = ("vllm.v1.utils", "run_api_server_worker_proc")
WAIT: Final = ("vllm.entrypoints.cli.serve", "wait_for_completion_or_failure")
LAUNCHER: Final = ("vllm.entrypoints.cli.serve", "run_multi_api_server")
#: The exit code of an API server that has found its engine dead, whose process may live on for seconds.
ENGINE_DIED: Final = 70
_LOADS: Final = "api_server_loads"  # with which vLLM's API servers divide the connections of one socket
_JOINED_WITHIN_S: Final = 1.0


class EngineEndedError(RuntimeError):
    """An engine process, the process that balances several, or the last API server has ended."""


@dataclass(frozen=True, slots=True)
class Reports:
    """What is told of the processes: ``lost`` the number of an API server, ``dead`` why nothing can be served."""

    lost: Callable[[int], None]
    dead: Callable[[str], None]


def loopback_sockets(count: int) -> list[socket.socket]:
    """Sockets that are bound to free loopback ports, and do not listen yet."""
    found = []
    for _ in range(count):
        one = socket.socket()
        one.bind(("127.0.0.1", 0))
        found.append(one)
    return found


def run_api_servers(args: Any, sockets: Sequence[socket.socket], reports: Reports) -> None:
    """Start the engine and an API server for each socket; returns or raises when they have ended.

    Raises EngineEndedError, SystemExit after a signal, and what keeps vLLM from starting.
    """
    _replace(WORKER, partial(run_worker, list(sockets)))
    _replace(WAIT, partial(wait_for_processes, reports=reports))
    _named(LAUNCHER)(args)


def run_worker(
    sockets: Sequence[socket.socket],
    _listen_address: str,
    shared: socket.socket,
    args: Any,
    client_config: dict[str, Any],
    **options: Any,
) -> None:
    """In the process of one API server, where nothing is replaced: vLLM's own, on the socket of this one alone."""
    own = sockets[client_config["client_index"]]
    for one in (shared, *sockets):
        if one is not own:
            one.close()
    args.host, args.port = own.getsockname()
    alone = {name: value for name, value in client_config.items() if name != _LOADS}
    _named(WORKER)(f"http://{args.host}:{args.port}", own, args, alone, **options)


def wait_for_processes(
    api_server_manager: Any, engine_manager: Any = None, coordinator: Any = None, *, reports: Reports
) -> None:
    """Wait until an engine has ended, or an API server says so with ``ENGINE_DIED``, or all API servers have ended.

    Raises EngineEndedError. With an engine the API servers are killed at once: what they would answer from then on are
    errors, and each of them would seem to be lost by itself.
    """
    servers = {one.sentinel: (at, one) for at, one in enumerate(api_server_manager.processes)}
    engines = {one.sentinel: one for one in getattr(engine_manager, "processes", ())}
    if coordinator is not None:
        engines[coordinator.proc.sentinel] = coordinator.proc
    while servers:
        ended = connection.wait([*servers, *engines])
        gone = [engines.pop(one) for one in ended if one in engines]
        lost = [servers.pop(one) for one in ended if one in servers]
        for _, process in lost:
            process.join(_JOINED_WITHIN_S)
        found = [number for number, process in lost if process.exitcode == ENGINE_DIED]
        if gone or found:
            why = (
                f"{gone[0].name} (process {gone[0].pid}) has ended"
                if gone
                else f"the engine died of an error of its own, as API server {found[0]} has found"
            )
            reports.dead(why)
            _kill([one for _, one in servers.values()])
            _kill(list(engines.values()))
            raise EngineEndedError(why)
        for number, process in lost:
            log.error(
                "API server %d (process %s) has ended with %s: %d of %d are left; "
                "headway recycle starts all of them anew",
                number, process.pid, process.exitcode, len(servers), len(api_server_manager.processes),
            )  # fmt: skip
            if servers:
                reports.lost(number)
    why = "all API servers have ended"
    reports.dead(why)
    raise EngineEndedError(why)


def _kill(started: Sequence[Any]) -> None:
    kill([each for one in started for each in family(one.pid)])


def _named(place: tuple[str, str]) -> Any:
    module, name = place
    return getattr(importlib.import_module(module), name)


def _replace(place: tuple[str, str], by: Any) -> None:
    module, name = place
    setattr(importlib.import_module(module), name, by)
