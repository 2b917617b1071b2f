"""``headway preset forecast``: what presets would do with the recent traffic of a running server."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable
from functools import partial

from headway.api import AdminClient, AdminError
from headway.api.schema import ClassForecast, Forecast, ForecastErrors, Interval, Quantiles
from headway_policies.preset.extends import read_text
from headway_policies.units import duration
from headway_tools.cli.output.forecast_page import forecast_page
from headway_tools.cli.output.simulated import need_plotly
from headway_tools.console import (
    Bar,
    Exit,
    FailedError,
    UsageError,
    add_json,
    add_url,
    as_cli_error,
    connect,
    table,
    write_file,
)

SUMMARY = "Forecast what presets would do with the recent traffic of a running server."
EPILOG = """\
examples:
  headway preset forecast                           all presets of the server
  headway preset forecast latency throughput
  headway preset forecast ./night.toml              a file that is not on the server yet
  headway preset forecast --html forecast.html      the same as charts

The server replays its last requests under each preset, in a process of the lowest priority, on the model of the engine
that it fits all the time; nothing is sent to the engine. Each figure is the median of three replays, with the least and
the largest of them.
Needs the operator token of the server (HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE).
exit codes: 0 done   1 there can be no forecast yet, or another one runs   2 unknown preset   3 not reachable
            4 token missing or wrong
"""
_POLL_S = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add_json(parser)
    parser.add_argument("names", nargs="*", metavar="NAME", help="presets of the server, or one file (default: all)")
    parser.add_argument("--span", type=float, default=600.0, metavar="S", help="of the recent traffic (default: 600)")
    parser.add_argument(
        "--within", type=float, default=60.0, metavar="S", help="time-out of the forecast (default: 60)"
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with charts that needs no network (needs plotly)")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    if not 1 <= chosen.within <= 600:
        raise UsageError("--within: from 1 to 600 seconds")
    if not 10 <= chosen.span <= 1800:
        raise UsageError("--span: from 10 to 1800 seconds")
    names, text = list(chosen.names), None
    if files := [name for name in names if name.endswith(".toml")]:
        if len(names) > 1:
            raise UsageError("give the names of presets, or one file")
        names, text = [], read_text(files[0])
    how = {"toml": text, "within_s": chosen.within, "span_s": chosen.span}
    if chosen.html:
        need_plotly()
    with connect(chosen.url, os.environ) as client, Bar(sys.stderr) as bar:
        found = _ask(client, partial(client.forecast, names or None, **how), bar)
    if chosen.html:
        write_file(chosen.html, forecast_page(found, _facts(found)))
    print(found.model_dump_json() if chosen.json else forecast_text(found))
    return Exit.OK


def _ask(client: AdminClient, forecast: Callable[[], Forecast], bar: Bar) -> Forecast:
    """Ask in a thread, and show meanwhile how far the server is."""
    found: list[Forecast | AdminError] = []

    def ask() -> None:
        try:
            found.append(forecast())
        except AdminError as error:
            found.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_S)
        try:
            bar.show("replaying the recent traffic", client.forecast_progress().done_ratio)
        except AdminError:
            continue  # the answer itself will say what is wrong
    if not found:
        raise FailedError("the forecast failed")
    if isinstance(found[0], AdminError):
        raise as_cli_error(found[0]) from None
    return found[0]


def _facts(found: Forecast) -> list[str]:
    """The replayed traffic, its engine, and how true earlier forecasts were."""
    engine = found.engine
    return [
        f"{found.requests} sequences of the last {duration(found.span_s)}, {found.seeds} replays of each preset; "
        f"a step takes {1000 * engine.base_s:.3g} ms + {1000 * engine.sequence_s:.3g} ms a sequence "
        f"+ {1000 * engine.prompt_token_s:.3g} ms a prompt token (error {engine.error_ratio:.0%})",
        *_earlier(found.earlier),
        *([sentence] if (sentence := _doubt(found)) else []),
    ]


def _doubt(found: Forecast) -> str:
    """The differences between the forecast of the preset in force and the measurements; empty if none is known."""
    return "" if found.earlier.in_force is None else found.earlier.in_force.sentence


def _earlier(errors: ForecastErrors) -> list[str]:
    """The errors of earlier forecasts, in a line; none before the first comparison."""
    if not errors.comparisons:
        return []
    said = ", ".join(f"{name} {ratio:.0%}" for name, ratio in errors.error_ratio.items())
    return [f"after the last {errors.comparisons} switches the forecasts were off by (median): {said}"]


def forecast_text(found: Forecast) -> str:
    """The forecast as text."""
    doubted = bool(_doubt(found))
    signs = ["? " if doubted and preset.name != found.current else "" for preset in found.presets]
    lines = [
        *_facts(found),
        "",
        table(
            ["", "preset", "tokens/s", "mean batch", "good a second"],
            [
                [
                    "*" if preset.name == found.current else "?" if doubted else "",
                    preset.name,
                    _spread(preset.tokens_per_s, ".0f"),
                    _spread(preset.mean_batch, ".1f"),
                    _spread(preset.goodput_per_s, ".2f"),
                ]
                for preset in found.presets
            ],
            indent="",
        ),
        "",
        table(
            [
                "preset",
                "class",
                "completed",
                "refused",
                "timed out",
                "good",
                "first token p50 / p95 s",
                "token p50 / p95 ms",
            ],
            [
                _row(f"{sign}{preset.name}", name, figures)
                for sign, preset in zip(signs, found.presets, strict=True)
                for name, figures in preset.classes.items()
            ],
            indent="",
        ),
        "",
        "(* in force; good: within the preset's own objectives; in brackets: least and largest of the replays)",
        *(["(? not confirmed: the forecast of the preset in force differs from the measurements)"] if doubted else []),
    ]
    return "\n".join(lines)


def _row(preset: str, name: str, figures: ClassForecast) -> list[str]:
    return [
        preset,
        name,
        _percent(figures.completed_ratio),
        _percent(figures.refused_ratio),
        _percent(figures.timed_out_ratio),
        _percent(figures.good_ratio),
        _quantiles(figures.ttft_s, 1.0, ".2f"),
        _quantiles(figures.inter_token_s, 1000.0, ".0f"),
    ]


def _quantiles(found: Quantiles, factor: float, form: str) -> str:
    return " / ".join(_spread(quantile, form, factor) for quantile in (found.p50, found.p95))


def _percent(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.value:.0%}"


def _spread(interval: Interval | None, form: str, factor: float = 1.0) -> str:
    if interval is None:
        return "-"
    value, low, high = (format(factor * bound, form) for bound in (interval.value, interval.low, interval.high))
    return value if low == high else f"{value} ({low} to {high})"
