"""The identity of a request and its right to use a route: the decisions of the route guard.

    open, admin     every request passes; the admin API checks its own tokens
    inference       a key of the keys file, or one of vLLM's own; without either every client is the tenant anonymous.
                    A trusted proxy needs no key; a key that it passes on decides.
    closed          the same, or a token of the admin API; anonymous does not pass
    operator        the operator's token of the admin API

A key that is presented and wrong is never ignored where keys are configured. Ten wrong ones in a minute lock an address
until the minute is over. A right key of the keys file still passes then: it has 256 bits, which cannot be guessed, and
many clients may share one address. Keys and tokens that may have been chosen by hand do not; trusted proxies are not
locked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.types import Scope

from headway.api.routes import Role
from headway.api_errors import BadRequest
from headway.http.access.api_keys import ApiKeys
from headway.http.access.identity import (
    ANONYMOUS,
    KEY_OF_VLLM,
    NO_TENANT,
    OPERATOR,
    TRUSTED,
    AnonymousIdentity,
    Credentials,
    Identity,
    Sender,
)
from headway.http.access.lockout import MOST_WRONG, WINDOW_S, Lockout
from headway.http.access.proxies import TrustedProxies
from headway.http.access.route_table import RouteTable
from headway.keys import KeysFile
from headway.openai.routes import RouteAccess
from headway_policies import Preset

_BEARER = ((b"www-authenticate", b"Bearer"),)


class AccessRefused(BadRequest):
    """The request may not use the route. ``reason`` is the label under which it is counted."""

    def __init__(
        self,
        reason: str,
        status: HTTPStatus,
        message: str,
        code: str,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(status, message, code, headers)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Access:
    """The inputs of the guard's decisions.

    ``role`` gives the role of an ``Authorization`` header in the admin API, ``has_tokens`` says whether that has any
    token. ``preset`` gives the preset in force, ``keys`` is the keys file; None: there is none. Times are seconds:
    ``now_s`` of the event loop's clock, ``wall_s`` since 1970.
    """

    table: RouteTable
    role: Callable[[str | None], Role | None]
    has_tokens: bool
    preset: Callable[[], Preset]
    keys: KeysFile | None = None
    api_keys: ApiKeys = field(default_factory=ApiKeys)
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    lockout: Lockout = field(default_factory=lambda: Lockout(MOST_WRONG, WINDOW_S))
    anonymous: AnonymousIdentity = field(default_factory=AnonymousIdentity)

    @property
    def wants_keys(self) -> bool:
        """Whether an inference route wants a key."""
        return self.keys is not None or bool(self.api_keys)

    def identity(self, scope: Scope, access: RouteAccess, now_s: float, wall_s: float) -> Identity:
        """The identity of a request on a route of this access. Raises AccessRefused."""
        match access:
            case RouteAccess.OPEN | RouteAccess.ADMIN:
                return NO_TENANT
            case RouteAccess.OPERATOR:
                return self._operator(scope, now_s)
            case RouteAccess.CLOSED:
                return self._holder_of_any(scope, now_s, wall_s)
        return self._client(scope, now_s, wall_s)

    def kept(self, sender: Sender, wall_s: float) -> Identity:
        """The identity of a sender now, for a request of this process in its name. Raises AccessRefused."""
        if sender.key_id is not None:
            found = None if self.keys is None else self.keys.ring.entitlement_of_id(sender.key_id, wall_s)
            if found is not None and found.tenant == sender.tenant:
                return Identity(found, sender.key_id)
        elif sender.trusted and self.proxies:
            return TRUSTED
        elif sender.tenant == ANONYMOUS and not self.wants_keys:
            return self.anonymous.under(self.preset())
        elif sender.tenant == KEY_OF_VLLM.tenant and self.api_keys:
            return KEY_OF_VLLM
        raise _wrong_key("The key that this was sent with is not known any more, or has expired.")

    def check_websocket(self, identity: Identity) -> None:
        """Raises AccessRefused for a tenant without the default class, which is that of everything a websocket sends,
        and for one with rates or budgets that bind it: these are judged at HTTP requests only.
        """
        allowed = identity.entitlement.classes
        wanted = self.preset().default_class
        if allowed is not None and wanted not in allowed:
            text = f"A websocket uses the class {wanted}, which this key does not have."
            raise AccessRefused("class", HTTPStatus.FORBIDDEN, text, "class_not_allowed")
        bound = any(owner.budget.binds for owner in identity.entitlement.budgets)
        if identity.entitlement.has_rates or bound:
            text = "A websocket cannot be charged to the rates and budgets of this key; use another route."
            raise AccessRefused("class", HTTPStatus.FORBIDDEN, text, "class_not_allowed")

    def _client(self, scope: Scope, now_s: float, wall_s: float) -> Identity:
        if not self.wants_keys:
            return TRUSTED if self.proxies.sent(scope) else self.anonymous.under(self.preset())
        credentials = Credentials.of(scope)
        found = self._of_keys_file(credentials, wall_s)
        if found is not None:
            return found
        trusted = self.proxies.sent(scope)
        if trusted and not (credentials.key or credentials.x_api_key):  # another login of its own is no key
            return TRUSTED
        address = None if trusted else _address(scope)
        self._check_lock(address, now_s)
        if not credentials:
            raise _no_key("A key is needed: Authorization: Bearer KEY.")
        if not self.api_keys.know(credentials.key):
            self.lockout.wrong(address, now_s)
            raise _wrong_key("The key is not known, or has expired.")
        return KEY_OF_VLLM

    def _of_keys_file(self, credentials: Credentials, wall_s: float) -> Identity | None:
        """The identity of a right key of the keys file."""
        if self.keys is None:
            return None
        found = self.keys.ring.entitlement_of(credentials.authorization, credentials.x_api_key, wall_s)
        return None if found is None else Identity(found[1], found[0])

    def _operator(self, scope: Scope, now_s: float) -> Identity:
        if not self.has_tokens:
            text = "This route needs an operator's token, and the server has none: set HEADWAY_ADMIN_TOKEN."
            raise AccessRefused("no_token_set", HTTPStatus.FORBIDDEN, text, "operator_needed")
        role = self._token_role(scope, now_s)
        if role is None:
            raise _no_key("The operator's token of the admin API is needed: Authorization: Bearer TOKEN.")
        if role is not Role.OPERATOR:
            text = "This token may read but not change anything; the route needs the operator's."
            raise AccessRefused("role", HTTPStatus.FORBIDDEN, text, "operator_needed")
        return OPERATOR

    def _holder_of_any(self, scope: Scope, now_s: float, wall_s: float) -> Identity:
        """The identity of a key, a trusted proxy, or a token of the admin API."""
        if self.role(Credentials.of(scope).authorization) is not None:
            self._check_lock(_address(scope), now_s)
            return NO_TENANT
        if self.wants_keys or self.proxies.sent(scope):
            return self._client(scope, now_s, wall_s)
        self._token_role(scope, now_s)
        raise _no_key("This server keeps the route closed: a token of its admin API is needed.")

    def _token_role(self, scope: Scope, now_s: float) -> Role | None:
        """The role of the token; None without a token. Raises AccessRefused for a wrong one."""
        address = _address(scope)
        self._check_lock(address, now_s)
        authorization = Credentials.of(scope).authorization
        role = self.role(authorization)
        if role is None and authorization:
            self.lockout.wrong(address, now_s)
            raise _wrong_key("The token is not one of the admin API.")
        return role

    def _check_lock(self, address: str | None, now_s: float) -> None:
        left_s = self.lockout.locked(address, now_s)
        if left_s > 0:
            wait_s = math.ceil(left_s)
            text = f"Too many wrong keys came from this address. Try again in {wait_s} s."
            headers = ((b"retry-after", str(wait_s).encode()),)
            raise AccessRefused("locked_out", HTTPStatus.TOO_MANY_REQUESTS, text, "too_many_wrong_keys", headers)


def _address(scope: Scope) -> str | None:
    """The address of the client, as the server knows it; None for a Unix socket."""
    client = scope.get("client")
    return str(client[0]) if client else None


def _no_key(text: str) -> AccessRefused:
    return AccessRefused("no_key", HTTPStatus.UNAUTHORIZED, text, "invalid_api_key", _BEARER)


def _wrong_key(text: str) -> AccessRefused:
    return AccessRefused("wrong_key", HTTPStatus.UNAUTHORIZED, text, "invalid_api_key", _BEARER)
