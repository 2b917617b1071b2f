"""The admin client of a command, with the token of the environment."""

from __future__ import annotations

from collections.abc import Mapping

from headway.api import AdminClient
from headway.api.client import TIMEOUT_S
from headway_tools.console.exits import TokenError, UsageError
from headway_tools.console.token import find_token

_NOT_SET = (
    "no admin token: set HEADWAY_ADMIN_TOKEN, or HEADWAY_ADMIN_TOKEN_FILE to a file that holds it "
    "(the server must be started with the same one)"
)


def connect(url: str, environ: Mapping[str, str], *, timeout_s: tuple[float, float] = TIMEOUT_S) -> AdminClient:
    """A client with the token of the environment. Raises TokenError where none is set, UsageError for a bad one."""
    token = find_token("ADMIN", environ)
    if token is None:
        raise TokenError(_NOT_SET)
    if not (token.text.isascii() and token.text.isprintable()):
        raise UsageError(f"{token.variable}: the token may hold printable ASCII characters only")
    return AdminClient(url, token.text, timeout_s=timeout_s)
