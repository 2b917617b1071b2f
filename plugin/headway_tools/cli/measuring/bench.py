"""``headway bench``: open-loop load against a running server, or two of them in turn."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import inf

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.traffic.trace import TraceError, read_trace
from headway_simulator.traffic.workload import WORKLOADS
from headway_tools.cli.measuring.objectives import USUAL_WORDS, add_objectives, given_objectives
from headway_tools.cli.output.bench_ramp import Ramped, show_ramp
from headway_tools.cli.output.bench_report import Outcome, show
from headway_tools.cli.output.simulated import need_plotly
from headway_tools.console import (
    Bar,
    FailedError,
    ServerUnreachableError,
    UsageError,
    add_json,
    add_url,
    check_folder,
    positive,
    seconds,
    whole,
)
from headway_tools.load.api_key import add_send_key, key_for
from headway_tools.load.completions import Completions, UnreachableServerError, UnsuitableServerError
from headway_tools.load.measured import Measured
from headway_tools.load.offered import LoadError, Source
from headway_tools.load.ramp import LOADS, TURNED, ramp
from headway_tools.load.run import Compared, Load, capacity_per_s, compare, offer
from headway_tools.load.scrape import ClassCounts

NAME = "bench"
SUMMARY = "Load a running server with open-loop traffic of several classes, and measure it by your objectives."
EPILOG = """\
examples:
  headway bench --url http://127.0.0.1:8000                          chat at 0.8 of the capacity
  headway bench --load 1.5 --duration 120 --slo-ttft-ms 500          an overload: do urgent classes keep objectives?
  headway bench --workload W3 --rate 4 --csv figures.csv             a changing mix at 4 requests/s
  headway bench --trace day.csv --load 1.2                           the arrivals of a recorded day
  headway bench --rate 6 --compare http://127.0.0.1:8001             a second server, in turn with the first
  headway bench --ramp --html ramp.html                              rising load, until the latency turns: the knee

workloads (as in `headway simulate`; the same seed gives the same arrivals, lengths and classes):
{workloads}

Any OpenAI-compatible server will do, such as `headway serve` and plain `vllm serve`. Arrivals are an open loop: no
request waits for an answer to another, as with independent users. --load is a multiple of the capacity, which a closed
loop of --clients measures first; --rate is requests/s. Class and tenant go in the headers x-headway-class and
x-headway-tenant. Plain vLLM ignores them; Headway takes them as far as the key allows, or unchanged from an address in
its HEADWAY_TRUSTED_PROXIES. --classes chat=0.9,jobs=0.1 names the classes of your own preset. Answers have full length
(ignore_eos). Goodput counts requests completed within both objectives; the time between tokens is the mean of each
request. The first tenth of the time, at most 30 s, is not measured. With --compare each block of --block seconds is
sent to both servers, in the order A B, B A, ...; ratios are B / A, median and extremes of the pairs. B gets the load of
A: the capacity of B is not measured.
With --ramp each of the loads {loads} is offered for {ramp_s} s
or --duration, until the 95th percentile of the first token is {turned} times its value in the first step; --rate
replaces the measured capacity. The knee of tokens/s over this percentile is a load to start with. A longer --duration
gives a smoother curve.
For the throughput of a closed loop with random lengths use `vllm bench serve --request-rate inf --max-concurrency N`.
By default each class is judged by the objectives that the server's /metrics state for it (with --compare: server A's),
a class without objectives by {usual}.
The API key in VLLM_API_KEY, or else in OPENAI_API_KEY, is sent to a server on this machine or at OPENAI_BASE_URL, and
with --send-key to any other server.

exit codes: 0 every request got an answer or a refusal   1 some got neither, none was completed, or the server refused
            the first request   2 wrong usage   3 not reachable   130 interrupted
"""
_DURATION_S = 60.0
_LOAD = 0.8
_MEASURE_S = 15.0
_CLIENTS = 32
_BLOCK_S = 30.0
_TIMEOUT_S = 300.0
_SETTLE_S = 5.0
_RAMP_STEP_S = 20.0
_MAX_CLIENTS = 1024
#: The shares of the classes of the bundled presets where none are given, of those that the server has.
_CLASSES = {"realtime": 0.2, "normal": 0.6, "batch": 0.2}


def configure(parser: argparse.ArgumentParser) -> None:
    listed = "\n".join(
        f"  {workload.name:<15} {workload.summary}" for workload in WORKLOADS.values() if not workload.closed
    )
    words = {"workloads": listed, "usual": USUAL_WORDS, "loads": ", ".join(f"{load:g}" for load in LOADS),
             "ramp_s": f"{_RAMP_STEP_S:g}", "turned": f"{TURNED:g}"}  # fmt: skip
    parser.epilog = EPILOG.format_map(words)
    add_url(parser)
    parser.add_argument("--model", metavar="M", help="the model to query (default: the first one listed)")
    parser.add_argument("--compare", metavar="URL", help="a second server, B, in turn with the first")
    parser.add_argument("--ramp", action="store_true", help="raise the load step by step until the latency turns")
    add_send_key(parser)
    traffic = parser.add_argument_group("what arrives")
    traffic.add_argument("--workload", metavar="W", help="a workload (default: W1)")
    traffic.add_argument("--trace", metavar="FILE", help="recorded traffic (columns as for `headway simulate`)")
    traffic.add_argument("--scale-lengths", type=positive, metavar="X", help="multiply the lengths of a trace")
    traffic.add_argument("--rate", type=positive, metavar="R", help="mean arrivals in requests/s")
    traffic.add_argument("--load", type=positive, metavar="X", help=f"the same as a multiple of the capacity ({_LOAD})")
    traffic.add_argument("--classes", type=_shares, metavar="C=X,...", help="classes with their shares of the requests")
    traffic.add_argument("--text-prompts", action="store_true", help="send words, not token ids")
    traffic.add_argument("--seed", type=int, default=1, metavar="N", help="the seed of the traffic (default: 1)")
    times = parser.add_argument_group("for how long")
    times.add_argument(
        "--duration", type=seconds, metavar="S", help=f"on each server (default: {_DURATION_S:g}, or the whole trace)"
    )
    times.add_argument(
        "--block", type=seconds, default=_BLOCK_S, metavar="S", help=f"a block of --compare (default: {_BLOCK_S:g})"
    )
    times.add_argument(
        "--measure", type=seconds, default=_MEASURE_S, metavar="S", help=f"the capacity (default: {_MEASURE_S:g})"
    )
    times.add_argument(
        "--clients",
        type=partial(whole, most=_MAX_CLIENTS, what="a number"),
        default=_CLIENTS,
        metavar="N",
        help=f"of that closed loop (default: {_CLIENTS})",
    )
    times.add_argument(
        "--timeout", type=seconds, default=_TIMEOUT_S, metavar="S", help=f"of one request (default: {_TIMEOUT_S:g})"
    )
    add_objectives(parser.add_argument_group("objectives"), positive)
    add_json(parser)
    parser.add_argument("--csv", metavar="FILE", help="write a row for each server and class, or each step of a ramp")
    parser.add_argument("--html", metavar="FILE", help="write a page with the curve of a ramp (needs plotly)")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    source = _source(chosen)
    _check_ramp(chosen)
    for path in (chosen.csv, chosen.html):
        if path:
            check_folder(path)
    try:
        with Bar(sys.stderr) as bar:
            outcome = asyncio.run(_bench(chosen, source, bar))
    except UnreachableServerError as error:
        raise ServerUnreachableError(str(error)) from None
    except UnsuitableServerError as error:
        raise FailedError(str(error)) from None
    except LoadError as error:
        raise UsageError(str(error)) from None
    return show_ramp(chosen, outcome) if isinstance(outcome, Ramped) else show(chosen, outcome)


async def _bench(chosen: argparse.Namespace, source: Source, bar: Bar) -> Outcome | Ramped:
    options = {"model": chosen.model, "as_text": chosen.text_prompts, "timeout_s": chosen.timeout}
    urls = [url for url in (chosen.url, chosen.compare) if url is not None]
    keys = {url: key_for(url, os.environ, send=chosen.send_key) for url in urls}
    slo = given_objectives(chosen)
    async with Completions(chosen.url, key=keys[chosen.url], **options) as first:
        known = (await first.counts()).classes
        classes = source.classes or {name: share for name, share in _CLASSES.items() if name in known} or _CLASSES
        source = replace(source, max_tokens=first.model.max_tokens, classes=classes)
        rate_per_s, capacity = await _rate(chosen, source, first, bar)
        own = _own((await first.counts()).classes) if slo is None else {}  # by then its engine is measured
        slo = slo or Slo()
        if chosen.ramp:
            full_per_s = capacity or rate_per_s
            offered = partial(_load, chosen, source, slo=slo, own=own)
            steps = await ramp(first, full_per_s, offered, bar.show)
            _warn_of_classes(first)
            return Ramped(chosen.url, first.model.name, source.words, chosen.seed, full_per_s, steps)
        load = _load(chosen, source, rate_per_s, slo, own)
        result: Measured | Compared
        if chosen.compare is None:
            result = await offer(first, load, bar.show)
        else:
            async with Completions(chosen.compare, key=keys[chosen.compare], **options) as second:
                pairs = max(2, 2 * round(load.duration_s / chosen.block / 2))
                if pairs > len(load.requests):
                    raise LoadError(f"{len(load.requests)} requests do not fill {pairs} blocks; give a longer --block")
                result = await compare((first, second), load, pairs, bar.show)
                _warn_of_classes(second)
        _warn_of_classes(first)
        return Outcome(chosen.url, chosen.compare, first.model.name, source.words, chosen.seed, rate_per_s, capacity,
                       slo, own, result)  # fmt: skip


def _own(classes: Mapping[str, ClassCounts]) -> dict[str, Slo]:
    """The objectives of the server's preset for its classes, on its engine; a missing objective is never missed."""
    stated = {name: counts.objectives_s for name, counts in classes.items() if counts.objectives_s}
    return {
        name: Slo(*(round(found.get(objective, inf), 5) for objective in ("first_token", "inter_token")))
        for name, found in stated.items()
    }


def _warn_of_classes(server: Completions) -> None:
    """Say once which figures are those of another class: the key of the server decides which one it is."""
    for asked, (given, why) in server.other_class.items():
        cause = f"the key has no {asked}; set OPENAI_API_KEY to a key of a tenant with this class (headway keys list)"
        if why == "no_key":
            cause = "the server knows no keys; set HEADWAY_KEYS_FILE, and: headway keys add --tenant NAME --classes "
            f"{asked}"
        print(f"{server.url} ran class {asked} as {given}: {cause}", file=sys.stderr)


def _load(chosen: argparse.Namespace, source: Source, rate_per_s: float, slo: Slo, own: Mapping[str, Slo]) -> Load:
    """The load that each server is offered. Raises LoadError."""
    whole_s = source.span_s(rate_per_s)
    duration_s = chosen.duration or whole_s or _DURATION_S
    whole = whole_s is not None and duration_s >= whole_s  # a trace, to its last row
    duration_s = whole_s if whole and whole_s is not None else duration_s
    requests = source.requests(chosen.seed, rate_per_s, inf if whole else duration_s)
    if not requests:
        raise LoadError("no request arrives in that time; give a longer --duration or a larger --rate")
    return Load(requests, duration_s, slo, chosen.timeout + _SETTLE_S, own)


async def _rate(
    chosen: argparse.Namespace, source: Source, server: Completions, bar: Bar
) -> tuple[float, float | None]:
    """Arrivals a second, and the capacity where it was measured."""
    if chosen.rate is not None:
        return chosen.rate, None
    if chosen.load is None and source.own_rate_per_s is not None and not chosen.ramp:
        return source.own_rate_per_s or 1.0, None
    bar.show(f"measuring the capacity: {chosen.clients} clients in a closed loop, {chosen.measure:g} s", 0.0)
    capacity = await capacity_per_s(server, source, chosen.seed, chosen.clients, chosen.measure)
    return (chosen.load or _LOAD) * capacity, capacity


def _source(chosen: argparse.Namespace) -> Source:
    if chosen.rate is not None and chosen.load is not None:
        raise UsageError("give either --rate or --load")
    if chosen.trace is None:
        if chosen.scale_lengths is not None:
            raise UsageError("--scale-lengths belongs to --trace")
        workload = WORKLOADS.get(chosen.workload or "W1")
        if workload is None:
            raise UsageError(f"there is no workload {chosen.workload!r} (see: headway bench --help)")
        if workload.closed:
            raise UsageError(f"{workload.name} is a closed batch; for its throughput use `vllm bench serve`")
        return Source(workload, classes=chosen.classes)
    if chosen.workload is not None:
        raise UsageError("give either --workload or --trace")
    try:
        trace = read_trace(chosen.trace).scaled(chosen.scale_lengths or 1.0)
    except TraceError as error:
        raise UsageError(str(error)) from None
    return Source(WORKLOADS["W1"], trace, chosen.classes)


def _check_ramp(chosen: argparse.Namespace) -> None:
    """Refuse what does not go together, and set the length of a step. Raises UsageError."""
    if not chosen.ramp:
        if chosen.html:
            raise UsageError("--html belongs to --ramp")
        return
    if chosen.load is not None or chosen.compare is not None:
        raise UsageError("--ramp has loads of its own, of one server: give neither --load nor --compare")
    if chosen.html:
        need_plotly()
    chosen.duration = chosen.duration or _RAMP_STEP_S


def _shares(text: str) -> dict[str, float]:
    """Read ``name=share,...``. Raises argparse.ArgumentTypeError."""
    shares = {}
    for part in text.split(","):
        name, _, share = part.partition("=")
        if not name.strip() or not name.isascii() or not name.isprintable():
            raise argparse.ArgumentTypeError(f"classes look like chat=0.9,jobs=0.1, not {text[:40]!r}")
        shares[name.strip()] = positive(share)
    return shares
