"""``python -m headway_dashboard``: start the dashboard."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from urllib.parse import urlsplit

import streamlit as st

from headway_dashboard.rights import start_words
from headway_dashboard.server import OPTIONS, PACKED, SCRIPT, routes
from headway_dashboard.settings import DEFAULT_REFRESH_S, DEFAULT_URL, MAX_SERVERS, Settings, server_urls
from headway_dashboard.shared import watching
from headway_dashboard.trusted_proxy import middleware


def _address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise argparse.ArgumentTypeError("an address must not carry a password")
    if "," in text:
        raise argparse.ArgumentTypeError(f"{text!r} has a comma")
    return text.rstrip("/")


def _addresses(text: str) -> str:
    """An address, or several with commas, each as it is allowed alone."""
    return ",".join(_address(part.strip()) for part in text.split(",") if part.strip()) or _address(text)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.5 <= value <= 60:
        raise argparse.ArgumentTypeError("0.5 to 60 seconds are allowed")
    return value


def parser() -> argparse.ArgumentParser:
    """The command line. There is no option for a token: it comes from the environment only."""
    command = argparse.ArgumentParser(
        prog="headway dashboard",
        description="Watch a Headway server, and switch its presets.",
        epilog="The token comes from HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE; without one the page only shows.",
    )
    command.add_argument(
        "--url",
        type=_addresses,
        action="append",
        help=f"the server; several times, or with commas, for several (default: $HEADWAY_URL, else {DEFAULT_URL})",
    )
    command.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    command.add_argument("--port", type=int, default=8501, help="port to listen on (default: %(default)s)")
    command.add_argument("--prometheus-url", type=_address, help="read history from this Prometheus")
    command.add_argument(
        "--refresh-s", type=_seconds, help=f"seconds between refreshes (default: {DEFAULT_REFRESH_S:g})"
    )
    return command


def _end(number: int, frame: FrameType | None) -> None:
    """Ctrl-C and a supervisor's stop end the process quietly. The web server closes everything, then calls this."""
    sys.stdout.flush()
    os._exit(0)


def _not_of_restarts(record: logging.LogRecord) -> bool:
    """Leave out Streamlit's advice to restart it: the options of this command reach it before it listens."""
    return "restart streamlit" not in record.getMessage()


def environment_of(asked: argparse.Namespace) -> dict[str, str]:
    """The variables that say what the options say: the pages read the environment alone."""
    wanted = {
        "HEADWAY_URL": ",".join(asked.url) if asked.url else None,
        "HEADWAY_PROMETHEUS_URL": asked.prometheus_url,
        "HEADWAY_REFRESH_S": asked.refresh_s,
    }
    return {name: str(value) for name, value in wanted.items() if value is not None}


def check_servers(command: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    """Refuse a variable HEADWAY_URL that an option ``--url`` would refuse, as it would."""
    urls = server_urls(environment.get("HEADWAY_URL") or "")
    if len(urls) > MAX_SERVERS:
        command.error(f"{len(urls)} servers are more than the {MAX_SERVERS} that one dashboard watches")
    for url in urls:
        try:
            _address(url)
        except argparse.ArgumentTypeError as error:
            command.error(f"HEADWAY_URL: {error}")


def main(argv: Sequence[str] | None = None) -> None:
    """Start the web server and stay in it until it is stopped."""
    command = parser()
    asked = command.parse_args(argv)
    os.environ.update(environment_of(asked))
    check_servers(command, os.environ)
    sys.argv = [str(SCRIPT)]  # Streamlit takes its folder for sys.path and its name for messages
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    if words := start_words(asked.host, Settings.from_environment()):
        sys.stderr.write(f"headway dashboard: {words}\n")
    logging.getLogger("streamlit.config").addFilter(_not_of_restarts)
    app = st.App(SCRIPT, routes=routes(), middleware=[*middleware(), PACKED], lifespan=watching)
    app.run(config={**OPTIONS, "server.address": asked.host, "server.port": asked.port})


if __name__ == "__main__":
    main()
