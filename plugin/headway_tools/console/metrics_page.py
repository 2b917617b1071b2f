"""The metrics of a server, fetched by a command within bounds of bytes and time."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlsplit

import requests

from headway.api import bounded_session, is_loopback
from headway_tools.console.exits import ServerUnreachableError, TokenError

MAX_METRICS_BYTES = 8 * 1024 * 1024
#: Prometheus' parser copies the rest of a line for each of its labels.
MAX_LINE_CHARS = 16 * 1024

TIMEOUT_S = (3.0, 15.0)
_CLOSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
T = TypeVar("T")


def fetch_metrics(url: str, read: Callable[[str], T], token: str | None = None) -> T:
    """The content of ``/metrics``, as ``read`` reads it. ``token``: of the admin API, where the route is closed.

    A server of this machine is reached past any proxy.
    Raises ServerUnreachableError; TokenError where a token is missing or wrong.
    """
    try:
        with bounded_session(MAX_METRICS_BYTES, sum(TIMEOUT_S), token) as session:
            session.trust_env = not is_loopback(urlsplit(url).hostname or "")
            response = session.get(f"{url}/metrics", timeout=TIMEOUT_S, allow_redirects=False)
        if response.status_code in _CLOSED:
            text = "wants a token of the admin API: set HEADWAY_ADMIN_TOKEN" if token is None else "refuses the token"
            raise TokenError(f"{url}/metrics {text}")
        if response.status_code != HTTPStatus.OK:
            raise requests.HTTPError(response=response)
        response.encoding = "utf-8"
        check_lines(response.text)
        return read(response.text)
    except (requests.RequestException, ValueError) as error:
        why = f"answered {error.response.status_code}" if isinstance(error, requests.HTTPError) else "gave no metrics"
        raise ServerUnreachableError(f"{url}/metrics {why}; check --url") from None


def check_lines(text: str) -> None:
    """Refuse a line that would take long to parse. Raises ValueError."""
    if any(len(line) > MAX_LINE_CHARS for line in text.split("\n")):
        raise ValueError(f"a line is longer than {MAX_LINE_CHARS} characters")
