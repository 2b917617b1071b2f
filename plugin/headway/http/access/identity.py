"""Whose request it is, as the route guard has found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headway_policies.entitlement import Entitlement

#: Where the ASGI scope of a request holds its Identity.
IDENTITY: Final = "headway.identity"


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
