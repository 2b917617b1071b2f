"""``headway dashboard``: the charts and the control page of a server, in the browser."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

from headway.cli.exits import UsageError
from headway.cli.parser import add_url, port
from headway.cli.preflight import try_bind

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
_NEEDS = ("headway_dashboard", "streamlit", "plotly", "prometheus_api_client")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_url(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=port, default=PORT, help=f"port to listen on (default: {PORT})")
    parser.add_argument("--prometheus-url", metavar="URL", help="read the charts' data from this Prometheus")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Become the dashboard's process; returns only by raising UsageError."""
    if missing := missing_parts():
        raise UsageError(
            f"the dashboard needs {', '.join(missing)}; install it with: pip install 'vllm-headway[dashboard]'"
        )
    try_bind(chosen.host, chosen.port)
    sys.stdout.flush()
    os.execve(sys.executable, command(chosen.host, chosen.port), environment(chosen))  # noqa: S606 - our own program


def missing_parts() -> list[str]:
    """The packages of the dashboard that are not installed."""
    return [name for name in _NEEDS if importlib.util.find_spec(name) is None]


def command(host: str, listen_port: int) -> list[str]:
    """The command line of the dashboard's process."""
    return [sys.executable, "-m", "headway_dashboard", "--host", host, "--port", str(listen_port)]


def environment(chosen: argparse.Namespace) -> dict[str, str]:
    """Its environment: where to read. The token is there already, if there is one."""
    variables = {**os.environ, "HEADWAY_URL": chosen.url}
    if chosen.prometheus_url:
        variables["HEADWAY_PROMETHEUS_URL"] = chosen.prometheus_url
    return variables
