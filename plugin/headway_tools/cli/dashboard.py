"""``headway dashboard``: the charts and the control page of a server, in the browser."""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping

from headway_tools.console import UsageError, install_command, missing_dashboard_packages, port, try_bind

NAME = "dashboard"
SUMMARY = "Run the dashboard of a server in the foreground, until Ctrl-C."
EPILOG = """\
examples:
  headway dashboard                                             of the server at HEADWAY_URL, on 127.0.0.1:8501
  headway dashboard --url http://10.0.0.5:8000 --port 8600
  headway dashboard --url http://10.0.0.5:8000 --url http://10.0.0.6:8000       two servers together
  headway dashboard --prometheus-url http://127.0.0.1:9090      charts from Prometheus instead of /metrics
  headway dashboard --demo                                      a look at the pages, of a simulated server

Its Control page switches presets only if HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE is set.
"""
PORT = 8501
_HOST = "127.0.0.1"
#: Variables that would let the dashboard of a simulation watch something else, or show less.
_OTHERS = ("HEADWAY_ADMIN_TOKEN_FILE", "HEADWAY_VIEWER_TOKEN", "HEADWAY_VIEWER_TOKEN_FILE", "HEADWAY_PROMETHEUS_URL")


def configure(parser: argparse.ArgumentParser) -> None:
    watched = parser.add_mutually_exclusive_group()
    watched.add_argument(
        "--url", action="append", help="a server; several times for several (default: $HEADWAY_URL, a list with commas)"
    )
    watched.add_argument(
        "--demo", action="store_true", help="start a simulated server with sample traffic, and show it"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=port, default=PORT, help=f"port to listen on (default: {PORT})")
    parser.add_argument("--prometheus-url", metavar="URL", help="read the charts' data from this Prometheus")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Become the dashboard's process; returns only by raising UsageError."""
    if missing := missing_dashboard_packages():
        raise UsageError(f"the dashboard needs {', '.join(missing)}; install it with: {install_command('dashboard')}")
    try_bind(chosen.host, chosen.port)
    environment = of_simulation(os.environ) if chosen.demo else dict(os.environ)
    sys.stdout.flush()
    os.execve(sys.executable, command(chosen), environment)  # noqa: S606 - this interpreter, no shell


def command(chosen: argparse.Namespace) -> list[str]:
    """The command line of the dashboard's process. A token reaches it in the environment only."""
    words = [sys.executable, "-m", "headway_dashboard"]
    for url in chosen.url or ():
        words += ["--url", url]
    words += ["--host", chosen.host, "--port", str(chosen.port)]
    return [*words, "--prometheus-url", chosen.prometheus_url] if chosen.prometheus_url else words


def of_simulation(environ: Mapping[str, str]) -> dict[str, str]:
    """Start a simulated server, which ends with this process; returns the environment of its dashboard."""
    token = {"HEADWAY_ADMIN_TOKEN": secrets.token_urlsafe(32)}
    others = {name: text for name, text in environ.items() if not name.startswith("HEADWAY_")}
    with socket.create_server((_HOST, 0)) as listening:
        descriptor, port = listening.fileno(), listening.getsockname()[1]
        words = [sys.executable, "-m", "headway_tools.demo.simulated_server", str(descriptor), str(os.getpid())]
        subprocess.Popen(  # noqa: S603 - this interpreter, no shell
            words,
            env=others | token,
            stdin=subprocess.DEVNULL,
            pass_fds=(descriptor,),
            start_new_session=True,  # Ctrl-C is for the dashboard
        )
    kept = {name: text for name, text in environ.items() if name not in _OTHERS}
    return kept | token | {"HEADWAY_URL": f"http://{_HOST}:{port}"}
