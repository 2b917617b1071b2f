"""``headway dashboard``: the charts and the control page of a server, in the browser."""

from __future__ import annotations

import argparse
import os
import sys

from headway_tools.console import UsageError, missing_dashboard_packages, port, try_bind

NAME = "dashboard"
SUMMARY = "Run the dashboard of a server in the foreground, until Ctrl-C."
EPILOG = """\
examples:
  headway dashboard                                             of the server at HEADWAY_URL, on 127.0.0.1:8501
  headway dashboard --url http://10.0.0.5:8000 --port 8600
  headway dashboard --url http://10.0.0.5:8000 --url http://10.0.0.6:8000       two servers together
  headway dashboard --prometheus-url http://127.0.0.1:9090      charts from Prometheus instead of /metrics
  headway dashboard --demo                                      a look at the pages, with simulated figures

Its Control page switches presets only if HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE is set.
"""
PORT = 8501


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    watched = parser.add_mutually_exclusive_group()
    watched.add_argument(
        "--url", action="append", help="a server; several times for several (default: $HEADWAY_URL, a list with commas)"
    )
    watched.add_argument("--demo", action="store_true", help="show simulated figures, without a server")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=port, default=PORT, help=f"port to listen on (default: {PORT})")
    parser.add_argument("--prometheus-url", metavar="URL", help="read the charts' data from this Prometheus")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Become the dashboard's process; returns only by raising UsageError."""
    if missing := missing_dashboard_packages():
        raise UsageError(
            f"the dashboard needs {', '.join(missing)}; install it with: pip install 'vllm-headway[dashboard]'"
        )
    try_bind(chosen.host, chosen.port)
    sys.stdout.flush()
    words = command(chosen)
    os.execv(sys.executable, words)  # noqa: S606 - this interpreter, no shell


def command(chosen: argparse.Namespace) -> list[str]:
    """The command line of the dashboard's process. A token reaches it in the environment only."""
    words = [sys.executable, "-m", "headway_dashboard"]
    for url in chosen.url or ():
        words += ["--url", url]
    if chosen.demo:
        words.append("--demo")
    words += ["--host", chosen.host, "--port", str(chosen.port)]
    return [*words, "--prometheus-url", chosen.prometheus_url] if chosen.prometheus_url else words
