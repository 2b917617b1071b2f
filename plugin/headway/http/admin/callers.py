"""The caller of each request to the admin API, by its token, its address, its rate and the page it comes from.

    404    the API is off: there is no token
    429    too many wrong tokens came from the address (``headway.http.access.lockout``)
    401    no token, or a wrong one
    403    the token may only read, or an order comes from a page of another origin
    414    the query is too long
    429    too many orders came with the token

All of it is decided before anything of the body is read. A locked address is refused whatever token it sends, so that
its answers do not tell a right one. The machine's own addresses are the exception: there a right token is always
taken, or any local program with an outdated token would lock the operator's shell out. Its wrong tokens are refused as
elsewhere; a token has at least 32 characters, so that the lock-out is not what keeps it from being guessed.
"""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Final

from starlette.requests import Request

from headway.api import is_loopback
from headway.api.routes import Role, Route
from headway.audit import Caller, plain
from headway.http.access.lockout import MOST_WRONG, WINDOW_S, Lockout
from headway.http.admin.answers import action
from headway.http.admin.origin import foreign_origin
from headway.http.admin.problem import ProblemError
from headway.http.admin.rules import AdminRules
from headway.http.admin.tokens import Tokens
from headway.operator import Control
from headway_policies.entitlement import TokenBucket

MAX_QUERY_BYTES = 1000
_MINUTE_S: Final = 60.0
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="headway"'}
_SHOWN_CHARS = 60


class Callers:
    """Finds out the caller of each request, or refuses it. Call it on the event loop's thread only."""

    def __init__(self, tokens: Tokens, rules: AdminRules) -> None:
        self._tokens = tokens
        self._rules = rules
        self._lockout = Lockout(MOST_WRONG, WINDOW_S)
        self._orders: dict[str, TokenBucket] = {}  # by the id of a valid token

    def identify(self, request: Request, route: Route, control: Control) -> Caller:
        """The caller of a route that needs a role. Raises ProblemError, and records the refused attempt."""
        if not self._tokens:
            advice = "The admin API is off. Set HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE and start again."
            raise ProblemError(HTTPStatus.NOT_FOUND, advice)
        now_s = control.gateway.gate.now_s()
        caller = self._authenticated(request, control, now_s)
        if route.role is Role.OPERATOR and caller.role != Role.OPERATOR:
            control.refused(caller, action(request), "the token may only read")
            raise ProblemError(HTTPStatus.FORBIDDEN, "This token may read but not change anything.")
        if len(request.scope["query_string"]) > MAX_QUERY_BYTES:
            raise ProblemError(HTTPStatus.REQUEST_URI_TOO_LONG, f"The query may have {MAX_QUERY_BYTES} bytes at most.")
        if route.order is not None:
            self._check_origin(request, control, caller)
        if route.changes:
            self._check_rate(request, control, caller, now_s)
        return caller

    # ------------------------------------------------------------------ inside

    def _authenticated(self, request: Request, control: Control, now_s: float) -> Caller:
        host = request.client.host if request.client else None
        authorization = request.headers.get("authorization")
        role, token_id = self._tokens.identify(authorization)
        if (left_s := self._lockout.locked(host, now_s)) and not (role and _is_local(host)):
            control.refused(Caller(address=host or "-", token_id=token_id), action(request), "locked out")
            detail = f"Too many wrong tokens came from this address. Try again in {math.ceil(left_s)} s."
            raise ProblemError(HTTPStatus.TOO_MANY_REQUESTS, detail, _retry_after(left_s))
        if role is None:
            if authorization is not None:
                self._lockout.wrong(host, now_s)
            control.refused(Caller(address=host or "-", token_id=token_id), action(request), "no token, or a wrong one")
            needed = "A valid token is needed: Authorization: Bearer TOKEN."
            raise ProblemError(HTTPStatus.UNAUTHORIZED, needed, _CHALLENGE)
        return Caller(actor=str(role), role=str(role), address=host or "-", token_id=token_id)

    def _check_origin(self, request: Request, control: Control, caller: Caller) -> None:
        foreign = foreign_origin(request, self._rules.origins)
        if foreign is None:
            return
        shown = plain(foreign[:_SHOWN_CHARS])
        control.refused(caller, action(request), f"a page of another origin: {shown}")
        detail = f"No order is taken from a page of {shown}: list its origin in HEADWAY_ADMIN_ORIGINS if it may order."
        raise ProblemError(HTTPStatus.FORBIDDEN, detail)

    def _check_rate(self, request: Request, control: Control, caller: Caller, now_s: float) -> None:
        per_minute = self._rules.orders_per_minute
        bucket = self._orders.get(caller.token_id)
        if bucket is None:
            bucket = self._orders[caller.token_id] = TokenBucket(per_minute / _MINUTE_S, per_minute)
        if wait_s := bucket.take(1, now_s):
            control.refused(caller, action(request), "too many orders")
            detail = f"{per_minute} orders a minute are taken with one token. Try again in {math.ceil(wait_s)} s."
            raise ProblemError(HTTPStatus.TOO_MANY_REQUESTS, detail, _retry_after(wait_s))


def _is_local(host: str | None) -> bool:
    """Whether an address is the machine's own; None: a Unix socket."""
    return host is None or is_loopback(host)


def _retry_after(wait_s: float) -> dict[str, str]:
    return {"Retry-After": str(max(1, math.ceil(wait_s)))}
