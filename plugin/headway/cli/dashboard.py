"""``headway dashboard``: the charts and the control page of a server, in the browser."""

from __future__ import annotations

import argparse
import os
import sys

from headway.console import UsageError, add_url, missing_dashboard_packages, port, try_bind

NAME = "dashboard"
SUMMARY = "Run the dashboard of a server in the foreground, until Ctrl-C."
EPILOG = """\
examples:
  headway dashboard                                             of the server at HEADWAY_URL, on 127.0.0.1:8501
  headway dashboard --url http://10.0.0.5:8000 --port 8600
  headway dashboard --prometheus-url http://127.0.0.1:9090      charts from Prometheus instead of /metrics

Its Control page switches presets only if HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE is set.
"""
PORT = 8501


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_url(parser)
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
    words = command(chosen.url, chosen.host, chosen.port, chosen.prometheus_url)
    os.execv(sys.executable, words)  # noqa: S606 - this interpreter, no shell


def command(url: str, host: str, listen_port: int, prometheus_url: str | None) -> list[str]:
    """The command line of the dashboard's process. A token reaches it in the environment only."""
    words = [sys.executable, "-m", "headway_dashboard", "--url", url, "--host", host, "--port", str(listen_port)]
    return [*words, "--prometheus-url", prometheus_url] if prometheus_url else words
