"""Load on one server, or on two in turn: the capacity, an open loop, and the comparison in blocks.

Two servers are compared in pairs of blocks, each pair with the same requests, in the order A B, B A, A B, ...: a drift
of the machine, or of what it shares, meets both alike. A block ends when each of its requests has ended, so that no
server works while the other one is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.traffic.traffic import warmup_s_of
from headway_simulator.traffic.workload import Request
from headway_tools.load.completions import Completions
from headway_tools.load.measured import Measured
from headway_tools.load.offered import LoadError, Source
from headway_tools.load.sender import Sender
from headway_tools.load.served import COMPLETED, UNANSWERED, Served

#: Open requests of one client; what is due beyond them is not sent, and counts as unanswered.
MAX_OPEN = 4096
_SPARE_FILES = 64
_SHOW_EVERY_S = 0.25
_FULL_AFTER_RATIO = 0.25  # of the measurement of the capacity: by then all clients have requests under way

#: Called with what is done, and the share of it that is done.
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Load:
    """The offered load: requests over ``duration_s``, their objectives (those of a class in ``own``, where it has any
    there), and how long their ends may take after it.
    """

    requests: Sequence[Request]
    duration_s: float
    slo: Slo
    settle_s: float
    own: Mapping[str, Slo] = field(default_factory=dict)

    def blocks(self, number: int) -> list[Load]:
        """The same in so many equal parts, each with times that count from its beginning."""
        length_s = self.duration_s / number
        parts: list[list[Request]] = [[] for _ in range(number)]
        for request in self.requests:
            place = min(int(request.at_s / length_s), number - 1)
            parts[place].append(request._replace(at_s=request.at_s - place * length_s))
        return [replace(self, requests=part, duration_s=length_s) for part in parts]


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure of B as a multiple of A's, pair by pair: the median and the extremes."""

    name: str
    median: float
    least: float
    most: float
    pairs: int


@dataclass(slots=True)
class Compared:
    """Both arms, and their figures pair by pair."""

    arms: tuple[Measured, Measured]
    pairs: list[tuple[Measured, Measured]] = field(default_factory=list)

    def ratios(self) -> list[Ratio]:
        """The ratios B / A; a figure that no pair has on both sides is left out."""
        found = [_ratio(name, of, self.pairs) for name, of in _FIGURES.items()]
        return [answer for answer in found if answer is not None]


async def capacity_per_s(server: Completions, source: Source, seed: int, clients: int, within_s: float) -> float:
    """Requests a second that a closed loop of so many clients completes. Raises LoadError where none is."""
    clock = asyncio.get_running_loop().time
    begin_s, enough = clock(), asyncio.Event()
    ends_s: list[float] = []

    def record(served: Served) -> None:
        if served.ending == COMPLETED:
            ends_s.append(clock() - begin_s)

    sender = Sender(server.complete, record)
    filling = asyncio.create_task(sender.keep_busy(source.endless(seed), clients, enough))
    try:
        await asyncio.sleep(within_s)
        enough.set()
        await filling
    finally:
        filling.cancel()
        await sender.abandon()
    return _rate(ends_s, within_s)


async def offer(server: Completions, load: Load, progress: Progress, name: str = "") -> Measured:
    """An open loop; returns when each request has ended."""
    warmup_s = warmup_s_of(load.duration_s)
    if load.requests and load.requests[-1].at_s < warmup_s:  # a burst at the beginning is all that there is
        warmup_s = 0.0
    measured = Measured(load.slo, warmup_s, load.duration_s - warmup_s, load.own)
    most, clock = open_files(), asyncio.get_running_loop().time
    begin_s = clock()

    async def ask(request: Request) -> Served:
        measured.offer(request)
        if sender.unfinished > most:
            served = Served(request.class_name, UNANSWERED, why=f"not sent: {most} requests are open")
        else:
            served = await server.complete(request)
        measured.end(request, served, clock() - begin_s)
        return served

    sender = Sender(ask, lambda served: None)
    showing = asyncio.create_task(_show(sender, len(load.requests), progress, name))
    try:
        await sender.send(load.requests)
        await sender.settle(load.settle_s)
    finally:
        showing.cancel()
        await sender.abandon()
    measured.lag_s = sender.lag_s
    return measured


async def compare(servers: tuple[Completions, Completions], load: Load, pairs: int, progress: Progress) -> Compared:
    """Each of so many blocks of the load on both servers."""
    compared = Compared((Measured(load.slo, 0.0, 0.0, load.own), Measured(load.slo, 0.0, 0.0, load.own)))
    for place, block in enumerate(load.blocks(pairs)):
        found: dict[int, Measured] = {}
        for arm in (0, 1) if place % 2 == 0 else (1, 0):
            part = part_of(progress, 2 * place + len(found), 2 * pairs)
            found[arm] = await offer(servers[arm], block, part, "AB"[arm])
        compared.pairs.append((found[0], found[1]))
        compared.arms[0].merge(found[0])
        compared.arms[1].merge(found[1])
    return compared


def part_of(progress: Progress, done: int, of: int) -> Progress:
    """The progress of one of several equal parts."""
    return lambda what, ratio: progress(what, (done + ratio) / of)


async def _show(sender: Sender, total: int, progress: Progress, name: str) -> None:
    while True:
        sent = sender.sent.total()
        progress(f"{name} {sent} sent, {sender.unfinished} wait or run".strip(), sent / max(total, 1))
        await asyncio.sleep(_SHOW_EVERY_S)


def _rate(ends_s: Sequence[float], within_s: float) -> float:
    """Completions a second from the time when all clients have requests under way."""
    full_s = _FULL_AFTER_RATIO * within_s
    counted = [end_s for end_s in ends_s if full_s <= end_s <= within_s]
    if not counted:
        raise LoadError("no request was completed while the capacity was measured; give --rate, or a longer --measure")
    return len(counted) / (within_s - full_s)


_FIGURES: dict[str, Callable[[Measured], float | None]] = {
    "goodput, requests/s": lambda measured: measured.all.good / measured.span_s,
    "output, tokens/s": lambda measured: measured.tokens_per_s,
    "first token, p50": lambda measured: measured.all.ttft.quantile(0.5),
    "first token, p95": lambda measured: measured.all.ttft.quantile(0.95),
    "inter-token, p50": lambda measured: measured.all.inter_token.quantile(0.5),
    "inter-token, p95": lambda measured: measured.all.inter_token.quantile(0.95),
}


def _ratio(
    name: str, of: Callable[[Measured], float | None], pairs: Sequence[tuple[Measured, Measured]]
) -> Ratio | None:
    both = [(of(a), of(b)) for a, b in pairs]
    ratios = [b / a for a, b in both if a and b is not None]
    return Ratio(name, median(ratios), min(ratios), max(ratios), len(ratios)) if ratios else None


def open_files() -> int:
    """The number of requests that may be open: each needs a file, and as many as are allowed are asked for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN + _SPARE_FILES
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard) if hard > 0 else wanted, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(min(MAX_OPEN, soft - _SPARE_FILES), 1)
