"""The sender of a request: the keys that it presents, and whose it is, as the route guard has found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.types import Scope

from headway_policies.entitlement import Entitlement

#: Where the ASGI scope of a request holds its Identity.
IDENTITY: Final = "headway.identity"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The headers of a request that may hold a key, None where they are missing; of a doubled one the first counts."""

    authorization: str | None = field(default=None, repr=False)
    x_api_key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, scope: Scope) -> Credentials:
        """The keys of this request."""
        found: dict[bytes, str] = {}
        for name, value in scope["headers"]:
            if name in (b"authorization", b"x-api-key"):
                found.setdefault(name, value.decode("latin-1"))
        return cls(found.get(b"authorization"), found.get(b"x-api-key"))

    def __bool__(self) -> bool:
        return bool(self.authorization or self.x_api_key)

    @property
    def key(self) -> str | None:
        """The presented key: of a Bearer header, else of ``x-api-key``, as Anthropic's clients send it."""
        if self.authorization:
            scheme, _, key = self.authorization.partition(" ")
            return key.strip() if scheme.lower() == "bearer" else None
        return self.x_api_key


@dataclass(frozen=True, slots=True)
class Identity:
    """The tenant of a request and what it is entitled to.

    ``key_id`` names the key, never the key itself; None where no key was asked for. ``trusted`` says that the request
    comes from a listed proxy, whose tenant and class headers are taken as they are.
    """

    entitlement: Entitlement
    key_id: str | None = None
    trusted: bool = False

    @property
    def tenant(self) -> str:
        """The name of the tenant."""
        return self.entitlement.tenant


def identity_of(scope: Mapping[str, Any]) -> Identity | None:
    """The identity of a request; None outside a server that has a route guard."""
    found = scope.get(IDENTITY)
    return found if isinstance(found, Identity) else None
