"""The admin client of a command, with the token of the environment."""

from __future__ import annotations

from collections.abc import Mapping

from headway.api import AdminClient, BadUrlError
from headway.api.client import TIMEOUT_S, host_of
from headway.errors import HeadwayError
from headway.settings import Environment
from headway_tools.console.exits import TokenError, UsageError

_NOT_SET = (
    "no admin token: set HEADWAY_ADMIN_TOKEN, or HEADWAY_ADMIN_TOKEN_FILE to the file with it "
    "(the server needs the same token at its start)"
)


def connect(url: str, environ: Mapping[str, str], *, timeout_s: tuple[float, float] = TIMEOUT_S) -> AdminClient:
    """A client with the token of the environment.

    Raises BadUrlError first, then TokenError where no token is set, UsageError for a bad one.
    """
    if not host_of(url):
        raise BadUrlError(url)
    try:
        token = Environment(environ).admin_token
    except HeadwayError as error:
        raise UsageError(str(error)) from None
    if token is None:
        raise TokenError(_NOT_SET)
    return AdminClient(url, token.text, timeout_s=timeout_s)
