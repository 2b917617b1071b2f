"""``headway calibrate``: measures a server's speed as constants of ``headway simulate``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import requests

from headway.api import AdminError
from headway.api.schema import StepTime
from headway.console import (
    Bar,
    CliError,
    FailedError,
    ServerUnreachableError,
    UsageError,
    add_json,
    add_url,
    connect,
    seconds,
    table,
)
from headway.simulator.engine_model.fit import CalibrationError, Fit, Point, doubts, fit
from headway.simulator.engine_model.probe import Measured, Probe

NAME = "calibrate"
SUMMARY = "Measure a running server, and print the constants that make `headway simulate` behave like it."
EPILOG = """\
examples:
  headway calibrate                                             the server at HEADWAY_URL
  headway calibrate --url http://10.0.0.5:8000 --model my-model
  headway calibrate --within 30 -o engine.json                  shorter; keep the fit and every measurement
  headway simulate --preset latency $(headway calibrate --flags)

Works with any OpenAI-compatible server. It is loaded with up to 32 short requests at once for the time given: run it
while the server has no other traffic, under a preset with at least 32 seats; with fewer, fewer requests run together.
A poor fit (mean error above 15 %) is a warning on standard error with likely causes, and in the JSON under "warnings".
With the admin token of a Headway server (HEADWAY_ADMIN_TOKEN) the model that it fits by itself is printed beside it.
exit codes: 0 done   1 the server refused or too little was measured   2 wrong usage   3 not reachable
"""
_WITHIN_S = 60.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_url(parser)
    parser.add_argument("--model", metavar="M", help="the model to query (default: the first one listed)")
    parser.add_argument(
        "--within", type=seconds, default=_WITHIN_S, metavar="S", help=f"measure for S seconds (default: {_WITHIN_S:g})"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the fit and the measurements as JSON")
    parser.add_argument("--flags", action="store_true", help="print nothing but the flags for `headway simulate`")
    add_json(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Measure, fit, print."""
    try:
        with Bar(sys.stderr) as bar, Probe(chosen.url, chosen.model, os.environ.get("VLLM_API_KEY") or None) as probe:
            measured = probe.measure(chosen.within, bar.show)
        fitted = fit(measured.inter_token, measured.first_token)
    except CalibrationError as error:
        raise FailedError(str(error)) from None
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema):
        raise UsageError(f"--url must look like http://HOST:PORT, not {chosen.url!r}") from None
    except requests.RequestException:
        raise ServerUnreachableError(f"{chosen.url} does not answer, or broke off; is it running?") from None
    doubtful = doubts(fitted, measured.inter_token, measured.first_token)
    for one in doubtful:
        print(f"headway: warning: {one}", file=sys.stderr)
    answer = json.dumps({**asdict(fitted), "flags": fitted.flags(), "warnings": doubtful, **asdict(measured)})
    if chosen.output:
        _write(chosen.output, answer)
    if chosen.flags:
        print(fitted.flags())
    else:
        print(answer if chosen.json else text(fitted, measured))
    if not chosen.flags and not chosen.json and (own := _own_fit(chosen.url)) is not None:
        print(f"\n{_compared(fitted, own)}")
    return 0


def _own_fit(url: str) -> StepTime | None:
    """The step time that a Headway server has fitted by itself; None where it cannot be asked, or has none yet."""
    try:
        with connect(url, os.environ) as client:
            return client.status().engine.step_time
    except (CliError, AdminError):
        return None


def _compared(fitted: Fit, own: StepTime) -> str:
    """The two models of a step side by side."""
    rows = []
    for running in (1, 8, 32):
        here_ms = 1000 * (fitted.base_s + fitted.seat_s * running)
        there_ms = 1000 * (own.base_s + own.sequence_s * running)
        rows.append([running, f"{here_ms:.1f}", f"{there_ms:.1f}", f"{there_ms / here_ms - 1:+.0%}"])
    head = ["running", "measured here, ms a step", "the server's own fit", "differs"]
    return (
        f"The server fits the same model from its own steps (error {own.error_ratio:.0%}); it knows best the batches "
        f"it has had lately:\n{table(head, rows)}"
    )


def text(fitted: Fit, measured: Measured) -> str:
    """The fit as text."""
    rows: list[list[object]] = [
        ["a step", fitted.base_s * 1000, "ms"],
        ["more for each sequence", fitted.seat_s * 1000, "ms"],
        ["more for each prompt token", fitted.prefill_s * 1000, "ms"],
        ["overhead of a request (not in the model)", fitted.overhead_s * 1000, "ms"],
    ]
    lines = [f"  {name:<42} {value:8.3f} {unit}" for name, value, unit in rows]
    return "\n".join(
        [
            *lines,
            "",
            _series("running", "inter-token ms", measured.inter_token, fitted.base_s, fitted.seat_s),
            f"  mean error {fitted.inter_token_error_ratio:.1%}",
            "",
            _series(
                "prompt tokens",
                "first token ms",
                measured.first_token,
                fitted.base_s + fitted.overhead_s,
                fitted.prefill_s,
            ),
            f"  mean error {fitted.first_token_error_ratio:.1%}",
            "",
            f"headway simulate {fitted.flags()}",
        ]
    )


def _series(at: str, what: str, points: Sequence[Point], base_s: float, slope_s: float) -> str:
    rows = [
        [f"{point.at:g}", f"{point.seconds * 1000:.1f}", f"{(base_s + slope_s * point.at) * 1000:.1f}"]
        for point in points
    ]
    return table([at, what, "fitted"], rows)


def _write(path: str, answer: str) -> None:
    try:
        Path(path).write_text(answer + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
