"""``headway share``: shares the seats of one machine between the servers of several models."""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from headway.api import TlsError, UnreachableError
from headway.errors import HeadwayError
from headway.router.addresses import read_addresses
from headway_policies.sharing import PauseTerms, SeatShares
from headway_tools.cli.control.command_options import actor_of
from headway_tools.console import INTERRUPTED, Exit, UsageError, add_json, connect, port, seconds, try_bind, warn, whole
from headway_tools.sharing.arbiter import Arbiter, Standing
from headway_tools.sharing.server import EXPIRES_S, SharedServer

if TYPE_CHECKING:  # a share without metrics needs nothing of a server
    from headway_tools.sharing.metrics import ShareCollector

NAME = "share"
SUMMARY = "Share the seats of one machine between the servers of several models, by their demand."
EPILOG = """\
examples:
  headway share --server http://127.0.0.1:8000 --server http://127.0.0.1:8001 --seats 48
  headway share --server http://127.0.0.1:8000=3 --server http://127.0.0.1:8001 --seats 48       three times the weight
  headway share --server http://127.0.0.1:8000 --server http://127.0.0.1:8001 --seats 48 \\
      --urgent http://127.0.0.1:8000 --pause http://127.0.0.1:8001                 pause the other model for this one

Each server is a `headway serve` of its own. Every second its status is read, and the --seats are divided by weighted
max-min fairness: a model gets no more than its demand while another model wants more, unwanted seats are headroom for
all, and every model keeps one seat. Each share is a limit by command: no restart, no dropped request; more seats fill,
fewer drain, and a limit is raised only into seats that no server occupies.

A model of --urgent gets its demand first from the time when its longest wait reaches half of the first-token objective
of the class (ttft_slo_s), until the wait was under a quarter for 10 seconds. Models of --pause are paused meanwhile,
and while it is short of memory, for --pause-at-most seconds, and then not for as long again; their running requests
finish. A paused server is not ready. Short of memory: by [memory] of its preset (KV cache, GPU memory), or when nine
tenths of the memory of its control group or of the machine are in use, and half of the memory that was once free.

At the end, by Ctrl-C, SIGTERM or an error, each server has the limit of its own preset again. If this command is
killed, each server goes back by itself within {expires} seconds, and a pause ends so too. A server that does not answer
keeps its seats for {expires} seconds, then the others get them; a server that is silent at the start has no seats until
it answers. A server where another client sets a limit, or has a preset on trial, is left alone until that is over. A
limit by command is fixed: the adaptive limit of a preset rests meanwhile. Run this command once for each machine.

With --metrics-port Prometheus can read on this machine, for each server, its seats, demand and use, and whether it is
paused, late, and follows commands (headway_share_seats and others).

Needs one admin token for all servers (HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE), an operator's.
exit codes: 0 ended by SIGTERM   1 a limit or a pause could not be given back   2 wrong usage
            3 no server reachable at the start   4 token missing or wrong   130 interrupted
"""
#: To connect, and for the answer: a command must be renewed in time although another server hangs.
_TIMEOUT_S = (1.0, 4.0)
_EVERY_S = 1.0
_POLL_S = 0.05
_PAUSE_S = 30.0
_MOST_SERVERS = 32


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG.replace("{expires}", f"{EXPIRES_S:g}")
    parser.add_argument(
        "--server",
        action="append",
        required=True,
        metavar="URL[=WEIGHT]",
        help="the server of one model; repeat for each model",
    )
    parser.add_argument(
        "--seats",
        type=partial(whole, most=65_536, what="a number of seats"),
        required=True,
        metavar="N",
        help="the seats of all servers together",
    )
    parser.add_argument(
        "--urgent", action="append", default=[], metavar="URL", help="a server that comes first when late"
    )
    parser.add_argument(
        "--pause", action="append", default=[], metavar="URL", help="a server that may be paused for an urgent one"
    )
    parser.add_argument(
        "--pause-at-most", type=seconds, default=_PAUSE_S, metavar="S",
        help=f"the longest pause, and the shortest time between two (default: {_PAUSE_S:g})",
    )  # fmt: skip
    parser.add_argument(
        "--metrics-port", type=port, metavar="PORT", help="serve metrics on 127.0.0.1 at this port (default: nowhere)"
    )
    parser.add_argument("--actor", metavar="NAME", help="your name, for the audit logs (default: $USER)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Share until a signal ends it, then give everything back."""
    with ExitStack() as stack:
        servers = _servers(chosen, stack)
        _check_reachable(servers)
        pauses = PauseTerms(chosen.pause_at_most, chosen.pause_at_most)
        arbiter = Arbiter(servers, chosen.seats, SeatShares(pauses=pauses))
        collector = _metrics(chosen, stack)
        with _signals() as came:
            failed: Mapping[str, str] = {}
            try:
                _share(arbiter, came, collector, as_json=chosen.json)
            finally:
                failed = arbiter.give_back()
                for url, text in failed.items():
                    warn(f"{url}: not given back: {text} A limit ends by itself; see: headway status --url {url}")
    if failed:
        return Exit.FAILED
    return INTERRUPTED if came[0] == signal.SIGINT else Exit.OK


def _check_reachable(servers: Sequence[SharedServer]) -> None:
    """Warn of each server that does not answer. Raises AdminError where none does, or one does not know the token."""
    away: list[UnreachableError] = []
    for server in servers:
        try:
            server.look()
        except TlsError:
            raise
        except UnreachableError as error:
            away.append(error)
    if len(away) == len(servers):
        raise away[0]
    for silent in away:
        warn(f"{silent.url}: {silent} It has its share as soon as it answers.")


def _metrics(chosen: argparse.Namespace, stack: ExitStack) -> ShareCollector | None:
    """The exporter of each step to Prometheus; None without a port. Raises UsageError where its port is not free."""
    if chosen.metrics_port is None:
        return None
    from headway_tools.sharing.metrics import HOST, ShareCollector, serving

    collector = ShareCollector(chosen.seats)
    try_bind(HOST, chosen.metrics_port, "--metrics-port")
    stack.enter_context(serving(collector, chosen.metrics_port))
    return collector


def _share(arbiter: Arbiter, came: Sequence[int], collector: ShareCollector | None, *, as_json: bool) -> None:
    """A step every second, and a line wherever it changed something."""
    shown: Mapping[str, Standing] = {}
    while not came:
        began_s = time.monotonic()
        standing = arbiter.step(began_s)
        if collector is not None:
            collector.show(standing, arbiter.readings)
        if standing != shown:
            _show(standing, shown, as_json=as_json)
            shown = standing
        while not came and time.monotonic() < began_s + _EVERY_S:
            time.sleep(_POLL_S)


def _show(standing: Mapping[str, Standing], shown: Mapping[str, Standing], *, as_json: bool) -> None:
    """The limits of all servers, and what keeps one from being set."""
    for url, state in standing.items():
        if state.problem and (url not in shown or shown[url].problem != state.problem):
            warn(f"{url}: {state.problem}")
    if as_json:
        print(json.dumps({url: asdict(state) for url, state in standing.items()}, ensure_ascii=False), flush=True)
    else:
        print("; ".join(_words(url, state) for url, state in standing.items()), flush=True)


def _words(url: str, state: Standing) -> str:
    notes = [
        word
        for word, is_so in (("late", state.late), ("paused", state.paused), ("see the warning", state.problem))
        if is_so
    ]
    return f"{state.model or url}: {state.seats} seats{''.join(f', {note}' for note in notes)}"


def _servers(chosen: argparse.Namespace, stack: ExitStack) -> list[SharedServer]:
    """The servers of the options. Raises UsageError."""
    try:
        addresses = read_addresses(chosen.server, "--server")
        marked = {
            flag: {read_address.name for read_address in read_addresses(urls, flag)} if urls else set[str]()
            for flag, urls in (("--urgent", chosen.urgent), ("--pause", chosen.pause))
        }
    except HeadwayError as error:
        raise UsageError(str(error)) from None
    for flag, names in marked.items():
        if unknown := names - {address.name for address in addresses}:
            raise UsageError(f"{flag}: {min(unknown)} is not given as --server")
    if len(addresses) > min(chosen.seats, _MOST_SERVERS):
        raise UsageError(f"{len(addresses)} servers need a seat each: at most {min(chosen.seats, _MOST_SERVERS)}")
    actor = actor_of(chosen)
    return [
        SharedServer(
            stack.enter_context(connect(address.url, os.environ, timeout_s=_TIMEOUT_S)),
            address.weight,
            urgent=address.name in marked["--urgent"],
            may_pause=address.name in marked["--pause"],
            actor=actor,
        )
        for address in addresses
    ]


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The signals that came, of those that end the command. None of them interrupts a command."""
    came: list[int] = []
    before = {
        end: signal.signal(end, lambda number, _: came.append(number))
        for end in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield came
    finally:
        for end, handler in before.items():
            signal.signal(end, handler)
