"""``headway route``: one queue in front of several vLLM servers."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Sequence
from functools import partial

from headway.errors import HeadwayError
from headway.operator import PresetCatalogue
from headway.router.addresses import MAX_INSTANCES, DnsName, read_addresses, read_instances
from headway.router.tls import check_tls
from headway.settings import VARIABLES, Environment
from headway_policies.close_name import no_such
from headway_tools.console import (
    DEFAULT_PRESET,
    UsageError,
    absolute,
    find_preset,
    open_catalogue,
    port,
    preflight,
    preset_dir,
    variable_lines,
    whole,
)

NAME = "route"
SUMMARY = "One queue in front of several servers: requests wait here, and go to the instance that has a seat."
EPILOG = f"""\
examples:
  headway route --instances http://10.0.0.1:8000,http://10.0.0.2:8000
  headway route --instances http://big:8000=2,http://small:8000 --preset throughput --port 9000
  headway route --instances http://a:8000,http://b:8000=@realtime    b: realtime first, other classes when a is full
  headway route --instances http://127.0.0.1:8001 --seats 64        plain vLLM does not report its --max-num-seqs
  headway route --instances http://127.0.0.1:8080                   llama.cpp's server reports its --parallel
  HEADWAY_SCALE_MAX=8 headway route --instances dns+http://instances:8000    instances that come and go
  headway route --instances http://10.0.0.1:8000 --fronts http://a:9000,http://b:9000 --port 9000     one of two fronts

The instances are running OpenAI-compatible servers: vLLM with Headway or without, SGLang, TGI, llama.cpp. `headway
status` names the unknown facts of each. Classes, presets, keys, the admin API, metrics and the dashboard work as in
`headway serve`; the seats of a preset count for each instance. A request waits in one queue and goes to an instance
when it leaves the queue; before its first byte it moves to another instance if its own is lost. Instances are asked
every second; a failing instance gets no requests until it recovers. Each address of dns+http://NAME:PORT is an
instance; the name is resolved again every five seconds, and an instance that has left finishes its requests. Start
several fronts before the same instances with the same --fronts: each fills a share of the seats by its demand, agreed
on twice a second, and the others get the share of a lost front at once. The limit follows the time between tokens of
the streams. Before the front listens, it warms up instances that have run no request, for half a minute at most, and
measures one request alone on the others.

environment, beside that of headway serve:
{variable_lines(variable for variable in VARIABLES if variable.of == "route")}
  HEADWAY_WARMUP=0            no warm-up through this server

On an instance with Headway, name this server in HEADWAY_TRUSTED_PROXIES, so that its classes and tenants are accepted.
exit codes: 0 stopped   1 failed   2 wrong usage, bad preset, port in use
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--instances", action="append", required=True, metavar="URL[=WEIGHT@CLASS],...",
        help="the servers, or dns+http://NAME:PORT for every address of a name; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--fronts", action="append", default=[], metavar="URL,...",
        help="all fronts before the same instances, including this front, as they reach each other",
    )  # fmt: skip
    parser.add_argument("--host", default="127.0.0.1", help="(default: 127.0.0.1)")
    parser.add_argument("--port", type=port, default=8000, help="(default: 8000)")
    parser.add_argument(
        "--preset",
        metavar="NAME|FILE",
        help=f"the preset to start with (default: $HEADWAY_PRESET, else {DEFAULT_PRESET})",
    )
    parser.add_argument("--preset-dir", metavar="DIR", help="a folder with your own preset files")
    parser.add_argument(
        "--seats", type=partial(whole, most=999_999), default=256, metavar="N",
        help="seats of an instance that does not report its seats (default: 256, as vLLM's --max-num-seqs)",
    )  # fmt: skip
    parser.add_argument(
        "--drain",
        type=partial(whole, most=999_999),
        default=30,
        metavar="S",
        help="time for running requests at the end (default: 30)",
    )
    parser.add_argument("--ssl-certfile", metavar="FILE", help="serve with TLS")
    parser.add_argument("--ssl-keyfile", metavar="FILE", help="the key of the certificate")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    folder = preset_dir(chosen.preset_dir, os.environ)
    wanted = chosen.preset or Environment().preset
    catalogue = open_catalogue(folder)
    find_preset(wanted, catalogue)
    preflight.check_variables(os.environ)
    preflight.try_bind(chosen.host, chosen.port)
    try:
        instances, names = read_instances(chosen.instances)
        _check_classes(
            frozenset().union(*(instance.classes for instance in instances), *(name.classes for name in names)),
            catalogue,
        )
        most = _most(names)
        fronts = read_addresses(chosen.fronts, "--fronts") if chosen.fronts else []
        check_tls(chosen.ssl_certfile, chosen.ssl_keyfile)
    except HeadwayError as error:
        raise UsageError(str(error)) from None
    if len(fronts) == 1:
        raise UsageError("--fronts: the addresses of all fronts are needed, this one's and at least another one")
    os.environ["HEADWAY_PRESET"] = absolute(wanted)
    if folder is not None:
        os.environ["HEADWAY_PRESET_DIR"] = str(folder)
    from headway.router.launch import RouteOptions, route

    return route(
        RouteOptions(
            instances,
            chosen.host,
            chosen.port,
            chosen.seats,
            chosen.drain,
            chosen.ssl_certfile,
            chosen.ssl_keyfile,
            names,
            most,
            fronts,
        )
    )


def _check_classes(named: Collection[str], catalogue: PresetCatalogue) -> None:
    """Raise UsageError for an instance that is kept for a class of no preset."""
    known = tuple(catalogue.class_names())
    if unknown := sorted(set(named) - set(known)):
        raise UsageError(f"--instances: {no_such('class', unknown[0], known)}")


def _most(names: Sequence[DnsName]) -> int | None:
    """The number of instances that the limit is for, where they come and go."""
    if not names:
        return None
    most = Environment().scale_max
    if most is None:
        raise UsageError("HEADWAY_SCALE_MAX: the most instances that there can be is needed with dns+http://")
    return min(most, MAX_INSTANCES)
