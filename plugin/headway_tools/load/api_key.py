"""The API key of a load, and the servers that it is sent to.

A key in the environment is a secret, and often that of another server. So it goes to a server on this machine, to the
one that OPENAI_BASE_URL names beside it (the same scheme, host and port), and with ``--send-key`` to any.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from headway.api import is_loopback

#: The key of vLLM's own variable comes before that of the clients of OpenAI.
VARIABLES: Final = ("VLLM_API_KEY", "OPENAI_API_KEY")
_BASE_URL: Final = "OPENAI_BASE_URL"
_PORTS: Final = {"http": 80, "https": 443}


def add_send_key(parser: argparse.ArgumentParser) -> None:
    """Add ``--send-key``."""
    parser.add_argument("--send-key", action="store_true", help="send the API key to a server on any machine")


def key_for(url: str, environment: Mapping[str, str], *, send: bool) -> str | None:
    """The API key to send to a server; None without one. A key that is not sent is named on stderr, with the remedy."""
    variable = next((name for name in VARIABLES if environment.get(name)), None)
    if variable is None:
        return None
    server = _server(url)
    meant = server is not None and (is_loopback(server[1]) or server == _server(environment.get(_BASE_URL, "")))
    if send or meant:
        return environment[variable]
    sys.stderr.write(
        f"headway: {variable} is not sent to {url}: it is neither on this machine nor the server of {_BASE_URL}; "
        "add --send-key to send it\n"
    )
    return None


def _server(url: str) -> tuple[str, str, int] | None:
    """The scheme, host and port of a URL; None where it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname and port else None
