"""``headway demo``: the command line of the demo. Its work is done in ``headway_tools.demo``."""

from __future__ import annotations

import argparse

from headway_tools.cli.dashboard import PORT as DASHBOARD_PORT
from headway_tools.console import DEFAULT_PRESET, VLLM_PORT, add_json, port, seconds
from headway_tools.demo.check import check
from headway_tools.demo.options import DEFAULT_MODEL, DEFAULT_RATE, Options

NAME = "demo"
SUMMARY = "Run a server, the dashboard, light traffic of three classes and an overload on this machine."
EPILOG = """\
examples:
  headway demo                          until Ctrl-C, which prints a summary and leaves no process behind
  headway demo --exit-after 60          one minute with an overload and a preset switch in the middle, then a summary
                                        and checks
  headway demo --model ./my-model --rate 3

Needs vLLM, the dashboard's packages and a model; in a clone of the repository `make demo` prepares all of them.
exit codes: 0 all checks passed   1 a check or a process failed   2 a port in use, no model, or a missing package
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--exit-after",
        type=seconds,
        metavar="S",
        help="S seconds of light traffic with an overload in the middle (at most 70 s more, and until its queue is "
        "empty), then check everything and exit",
    )
    parser.add_argument("--model", default=DEFAULT_MODEL, metavar="DIR", help=f"(default: {DEFAULT_MODEL})")
    parser.add_argument("--port", type=port, default=VLLM_PORT, help=f"of the server (default: {VLLM_PORT})")
    parser.add_argument("--dashboard-port", type=port, default=DASHBOARD_PORT, help=f"(default: {DASHBOARD_PORT})")
    parser.add_argument("--preset", default=DEFAULT_PRESET, metavar="NAME", help=f"(default: {DEFAULT_PRESET})")
    parser.add_argument(
        "--rate", type=rate, default=DEFAULT_RATE, help=f"mean requests per second (default: {DEFAULT_RATE})"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def rate(text: str) -> float:
    """Read a rate, at most 50 requests per second. Raises argparse.ArgumentTypeError."""
    value = seconds(text)
    if value > 50:
        raise argparse.ArgumentTypeError("the demo's traffic is light: at most 50 requests per second")
    return value


def run(chosen: argparse.Namespace) -> int:
    """Run the demo and return its exit code. Raises UsageError before anything is started, FailedError after."""
    options = Options(
        model=chosen.model,
        preset=chosen.preset,
        server_port=chosen.port,
        dashboard_port=chosen.dashboard_port,
        rate_per_s=chosen.rate,
        exit_after_s=chosen.exit_after,
        as_json=chosen.json,
    )
    check(options)
    from headway_tools.demo.show import run as run_demo  # after the checks: what it imports takes long

    return run_demo(options)
