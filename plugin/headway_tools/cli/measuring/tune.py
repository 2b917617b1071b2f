"""``headway tune``: sweeps the seats of a running server, and suggests a preset."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace

from headway.api import AdminError
from headway_simulator.report.page import page
from headway_tools.cli.output.simulated import need_plotly
from headway_tools.console import (
    INTERRUPTED,
    Bar,
    CliError,
    Exit,
    UsageError,
    add_json,
    add_url,
    check_folder,
    connect,
    seconds,
    warn,
    write_file,
)
from headway_tools.load.api_key import add_send_key, key_for
from headway_tools.tuning.curve import curve_chart, curve_of, text_curve
from headway_tools.tuning.live import GRACE_S, Live
from headway_tools.tuning.own_load import OwnLoad
from headway_tools.tuning.proposal import Choice, choose, evidence, knee, preset_text
from headway_tools.tuning.step import Objectives
from headway_tools.tuning.sweep import Range, Sweep, Swept

NAME = "tune"
SUMMARY = "Find the number of seats that suits a running server, under its own load, and suggest a preset."
EPILOG = """\
examples:
  headway tune                                            under the load that the server has now
  headway tune --with-load --out tuned.toml               a server without users: tune adds its own clients
  headway tune --seats 8,16,24,32 --measure 60            these numbers only, a minute each
  headway tune --apply --html curve.html                  put the suggestion in force, draw the curve

Tune measures the seats in force, then 1.5 times as many, and so on up to the ceiling, then fewer. Each step is a limit
by command: no restart, no dropped request; more seats fill, fewer drain. The server settles for --settle seconds, then
its metrics are read over --measure seconds. A direction ends with the first step that hurts an objective of the preset
(ttft_slo_s, inter_token_slo_ms), refuses more requests, or has seats that the load does not fill. Under `dynamic` the
window follows. On a machine with other work a longer --measure gives a smoother curve.

The suggestion is the knee of tokens/s over the time between tokens: the point with the largest distance to the chord
(Kneedle; Satopaa et al., ICDCSW 2011), or the best step within the objectives if the knee misses one. At the end the
earlier preset is in force again, also after Ctrl-C or an error; if tune is killed, the server itself goes back when the
command expires, at most {expires} seconds after the time of the step. A switch by another client ends the sweep, and
stays. --apply lasts until the next switch or restart; --out writes the preset for the next start.

Needs the admin token of the server (HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE), an operator's. The clients of
--with-load send the API key in VLLM_API_KEY, or else in OPENAI_API_KEY, as `headway bench` does.
exit codes: 0 done   1 no load, an engine that was replaced, or a preset that was switched meanwhile
            2 wrong usage   3 not reachable   4 token missing or wrong   130 interrupted
"""
_SETTLE_S = 5.0
_MEASURE_S = 20.0
_CLIENTS_RATIO = 1.25
_MAX_CLIENTS = 512
_MAX_STEPS = 32


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG.replace("{expires}", f"{GRACE_S:g}")
    add_url(parser)
    parser.add_argument("--seats", type=_numbers, default=(), metavar="N,...", help="try these numbers of seats only")
    for flag, default, words in (
        ("--settle", _SETTLE_S, "before it is measured"),
        ("--measure", _MEASURE_S, "measured"),
    ):
        parser.add_argument(
            flag, type=seconds, default=default, metavar="S", help=f"time of each step: {words} (default: {default:g})"
        )
    parser.add_argument(
        "--inter-token-slo-ms", type=float, metavar="MS", help="objective between tokens (default: the preset's)"
    )
    parser.add_argument("--with-load", action="store_true", help="bring a closed loop of clients that fills the seats")
    add_send_key(parser)
    parser.add_argument("--clients", type=int, metavar="N", help="of --with-load (default: 1.25 times the most seats)")
    parser.add_argument("--out", metavar="FILE", help="write the suggested preset")
    parser.add_argument("--apply", action="store_true", help="put the suggested preset in force, until the next switch")
    parser.add_argument("--html", metavar="FILE", help="write a page with the curve (needs plotly)")
    parser.add_argument("--actor", metavar="NAME", help="your name, for the audit log (default: $USER)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    _check(chosen)
    with connect(chosen.url, os.environ) as client:
        live = Live.of(client, chosen.actor or os.environ.get("USER") or None)
        sweep, ended = _sweep(chosen, live)
        found = None if ended is not None else choose(sweep.swept)
        said = _said(chosen, live, sweep.swept, found)
        if found is not None and chosen.apply:
            live.keep(found.step.seats, found.window_ms)
            said = f"{said}\n\nin force: {live.name} fixed at {found.step.seats} seats, until the next switch"
    if chosen.html:
        write_file(chosen.html, _page(live, sweep.swept))
    if chosen.json:
        print(json.dumps(_as_json(live, sweep.swept, found), ensure_ascii=False))
    else:
        print(said)
    if isinstance(ended, Exception):
        raise ended
    if ended is not None:
        return INTERRUPTED
    return Exit.OK if found is not None else Exit.FAILED


def _sweep(chosen: argparse.Namespace, live: Live) -> tuple[Sweep, BaseException | None]:
    """All steps, and what ended them early; afterwards the preset of before is in force again. Raises what ended them
    before the first was measured.
    """
    within = Range.of(live.settings, live.current, live.ceiling, chosen.seats)
    objectives = Objectives.of(live.settings, live.client.status())
    if chosen.inter_token_slo_ms is not None:
        objectives = replace(objectives, inter_token_s=chosen.inter_token_slo_ms / 1000)
    with Bar(sys.stderr) as bar, _interruptible():
        sweep = Sweep(live, objectives, settle_s=chosen.settle, measure_s=chosen.measure, progress=bar.show)
        try:
            with _load(chosen, live, within):
                try:
                    _take(sweep, within, live.settings)
                finally:
                    _restore(live)
        except KeyboardInterrupt as ended:
            return sweep, ended
        except (AdminError, CliError) as ended:
            if not sweep.swept.steps:
                raise
            return sweep, ended
    return sweep, None


def _take(sweep: Sweep, within: Range, settings: Mapping[str, object]) -> None:
    """The seats, and the windows where whole batches are formed."""
    sweep.seats(within)
    found = choose(sweep.swept)
    if found is not None and settings.get("batching.strategy") == "dynamic":
        sweep.window(found.step.seats, float(str(settings.get("batching.window_ms", 0))))


def _load(chosen: argparse.Namespace, live: Live, within: Range) -> contextlib.AbstractContextManager[object]:
    if not chosen.with_load:
        return contextlib.nullcontext()
    most = max(within.upwards(), default=within.current)
    clients = chosen.clients or min(round(most * _CLIENTS_RATIO) + 1, _MAX_CLIENTS)
    key = key_for(live.client.url, os.environ, send=chosen.send_key)
    return OwnLoad(live.client.url, clients, str(live.settings.get("default_class", "")), key)


def _restore(live: Live) -> None:
    """Put the preset of before in force again; a Ctrl-C in the meantime waits."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        if not live.restore():
            warn("the preset was switched meanwhile, and is left as it is")
    except (AdminError, CliError) as error:
        warn(
            f"the preset could not be restored ({error}); the server goes back by itself when the limit by command "
            "expires"
        )
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP end a sweep as Ctrl-C does."""
    before = {end: signal.signal(end, signal.default_int_handler) for end in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for end, handler in before.items():
            signal.signal(end, handler)


def _said(chosen: argparse.Namespace, live: Live, swept: Swept, found: Choice | None) -> str:
    """The result as text; the preset goes to ``--out`` where that is given."""
    bend = knee(swept.by_seats())
    curve = text_curve(curve_of(swept.by_seats(), bend))
    parts = [f"{live.client.url}, preset {live.name}", "\n".join(evidence(swept)), curve]
    parts += ["\n".join(f"tried {stop}" for stop in swept.stops)]
    if found is None:
        parts.append("no suggestion: no step was measured to the end, or none keeps the objectives")
    else:
        toml = preset_text(live.name, live.source, live.settings, swept, found, live.client.url)
        parts.append(f"suggested: fixed at {found.step.seats} seats: {found.because}")
        if chosen.out:
            write_file(chosen.out, toml)
            parts.append(f"written to {chosen.out}; check it with: headway preset diff {live.name} {chosen.out}")
        else:
            parts.append(toml.rstrip())
    return "\n\n".join(part for part in parts if part)


def _as_json(live: Live, swept: Swept, found: Choice | None) -> Mapping[str, object]:
    bend = knee(swept.by_seats())
    preset = None
    if found is not None:
        preset = preset_text(live.name, live.source, live.settings, swept, found, live.client.url)
    return {
        "preset": live.name,
        "steps": [asdict(step) for step in swept.by_seats()],
        "windows": [asdict(window) for window in swept.windows],
        "stops": swept.stops,
        "knee": None if bend is None else bend.seats,
        "seats": None if found is None else found.step.seats,
        "window_ms": None if found is None else found.window_ms,
        "because": None if found is None else found.because,
        "toml": preset,
    }


def _page(live: Live, swept: Swept) -> str:
    steps = swept.by_seats()
    bend = knee(steps)
    facts = [f"{live.client.url}, preset {live.name}", *(f"tried {stop}" for stop in swept.stops)]
    rows = [
        (f"{step.seats} seats", [f"{step.tokens_per_s:.1f}", f"{(step.inter_token_mean_s or 0) * 1000:.1f}"])
        for step in steps
    ]
    head = ["tokens/s", "ms between tokens"]
    return page(f"Headway: the seats of {live.name}", facts, head, rows, [curve_chart(curve_of(steps, bend))])


def _check(chosen: argparse.Namespace) -> None:
    """Refuse what would fail at the end. Raises UsageError."""
    for path in (chosen.out, chosen.html):
        if path:
            check_folder(path)
    if chosen.html:
        need_plotly()
    if chosen.clients is not None and not (chosen.with_load and 1 <= chosen.clients <= _MAX_CLIENTS):
        raise UsageError(f"--clients belongs to --with-load, and is a number from 1 to {_MAX_CLIENTS}")
    if chosen.inter_token_slo_ms is not None and not 0 < chosen.inter_token_slo_ms <= 60_000:
        raise UsageError("--inter-token-slo-ms: milliseconds from 0 to 60000 are needed")
    if chosen.settle + chosen.measure > 3000:
        raise UsageError("--settle and --measure: at most 3000 seconds together")


def _numbers(text: str) -> tuple[int, ...]:
    """Read ``8,16,24``. Raises argparse.ArgumentTypeError."""
    parts = text.split(",")
    if not (all(part.isascii() and part.isdigit() and 1 <= int(part[:6]) <= 65_536 for part in parts)):
        raise argparse.ArgumentTypeError(f"numbers of seats look like 8,16,24, not {text[:40]!r}")
    if len(parts) > _MAX_STEPS:
        raise argparse.ArgumentTypeError(f"at most {_MAX_STEPS} numbers of seats, not {len(parts)}")
    return tuple(map(int, parts))
