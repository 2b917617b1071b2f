"""The caller of each request to the admin API, by its token and its address.

    404    the API is off: there is no token
    429    too many wrong tokens came from the address (``headway.http.access.lockout``)
    401    no token, or a wrong one
    403    the token may only read
    414    the query is too long

All of it is decided before the body is read. A locked address is refused whatever token it sends, so that its answers
do not tell a right one. From the machine's own addresses a right token is always taken, or any local program with an
outdated token would lock out the operator; a token has at least 32 characters, and cannot be guessed.

The ``Origin`` of a command is not checked: no browser adds ``Authorization: Bearer`` to a page's request by itself.
Where a proxy adds it, a command from a page of another site needs a preflight for its type, ``application/json``, which
``headway.http.access.route_guard`` refuses; any other type is 415.
"""

from __future__ import annotations

import math
from http import HTTPStatus

from starlette.requests import Request

from headway.api import is_loopback
from headway.api.routes import Role, Route
from headway.audit import Caller
from headway.http.access.lockout import MOST_WRONG, WINDOW_S, Lockout
from headway.http.admin.answers import action
from headway.http.admin.problem import ProblemError
from headway.http.admin.tokens import Tokens
from headway.operator import Control

MAX_QUERY_BYTES = 1000
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="headway"'}


class Callers:
    """The callers of requests, or the refusals. Used on the event loop's thread only."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._lockout = Lockout(MOST_WRONG, WINDOW_S)

    def identify(self, request: Request, route: Route, control: Control) -> Caller:
        """The caller of a route that needs a role. Raises ProblemError, and records the refused attempt."""
        if not self._tokens:
            advice = "The admin API is off. Set HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE and start again."
            raise ProblemError(HTTPStatus.NOT_FOUND, advice)
        caller = self._authenticated(request, control, control.gateway.gate.now_s())
        if route.role is Role.OPERATOR and caller.role != Role.OPERATOR:
            control.refused(caller, action(request), "the token may only read")
            raise ProblemError(HTTPStatus.FORBIDDEN, "This token may read but not change anything.")
        if len(request.scope["query_string"]) > MAX_QUERY_BYTES:
            raise ProblemError(HTTPStatus.REQUEST_URI_TOO_LONG, f"The query may have {MAX_QUERY_BYTES} bytes at most.")
        return caller

    # ------------------------------------------------------------------ inside

    def _authenticated(self, request: Request, control: Control, now_s: float) -> Caller:
        host = request.client.host if request.client else None
        authorization = request.headers.get("authorization")
        role, token_id = self._tokens.identify(authorization)
        if (left_s := self._lockout.locked(host, now_s)) and not (role and _is_local(host)):
            control.refused(Caller(address=host or "-", token_id=token_id), action(request), "locked out")
            detail = f"Too many wrong tokens came from this address. Try again in {math.ceil(left_s)} s."
            raise ProblemError(HTTPStatus.TOO_MANY_REQUESTS, detail, {"Retry-After": str(math.ceil(left_s))})
        if role is None:
            if authorization is not None:
                self._lockout.wrong(host, now_s)
            control.refused(Caller(address=host or "-", token_id=token_id), action(request), "no token, or a wrong one")
            needed = "A valid token is needed: Authorization: Bearer TOKEN."
            raise ProblemError(HTTPStatus.UNAUTHORIZED, needed, _CHALLENGE)
        return Caller(actor=str(role), role=str(role), address=host or "-", token_id=token_id)


def _is_local(host: str | None) -> bool:
    """Whether an address is the machine's own; None: a Unix socket."""
    return host is None or is_loopback(host)
