"""The sender of a request: the keys that it presents, and whose it is, as the route guard has found out.

Without a keys file and without keys of vLLM's own every client is the tenant ``anonymous``. This tenant has the default
class of the preset and the less urgent ones, since any client may call itself urgent, and caps that bound what one
request can hold:

    output tokens   32,768   above the 32,000 that agents ask for; a class's time-outs end a longer answer anyway
    sequences       8        ``n`` and ``best_of``
    prompts         128      texts in one body: clients that embed documents send 100 at once
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct
from starlette.types import Scope

from headway_policies import Preset
from headway_policies.entitlement import Entitlement, RequestCaps

#: Where the ASGI scope of a request holds its Identity.
IDENTITY: Final = "headway.identity"
#: Where a request of this process has the Sender that it is made for.
SENDER: Final = "headway.sender"
ANONYMOUS: Final = "anonymous"
ANONYMOUS_CAPS: Final = RequestCaps(output_tokens=32_768, sequences=8, prompts=128)


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
    """The tenant of a request and its rights.

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


class Sender(Struct, frozen=True):
    """The sender of a request as it can be kept: its tenant, and its key where it has one, by name."""

    tenant: str
    key_id: str | None = None
    trusted: bool = False


#: Of a request that no tenant has sent: a probe, or a call of the admin API. It has the least urgent class only.
NO_TENANT: Final = Identity(Entitlement("none", classes=frozenset()))
#: Of an operator's call of a route of vLLM.
OPERATOR: Final = Identity(Entitlement("operator"))
#: Of a trusted proxy's request without a key.
TRUSTED: Final = Identity(Entitlement("default"), trusted=True)
#: Of a request with one of vLLM's own keys, which tell no tenants apart.
KEY_OF_VLLM: Final = Identity(Entitlement("default"))


def anonymous_entitlement(preset: Preset) -> Entitlement:
    """The entitlement of the tenant ``anonymous`` under this preset."""
    ranked = preset.by_urgency()
    allowed = frozenset(ranked[ranked.index(preset.default_class) :])
    return Entitlement(ANONYMOUS, classes=allowed, default_class=preset.default_class, caps=ANONYMOUS_CAPS)


class AnonymousIdentity:
    """The identity of the tenant ``anonymous``, made once for each preset that comes into force."""

    __slots__ = ("_identity", "_preset")

    def __init__(self) -> None:
        self._preset: Preset | None = None
        self._identity: Identity | None = None

    def under(self, preset: Preset) -> Identity:
        """The identity under this preset."""
        if self._identity is None or preset is not self._preset:
            self._preset, self._identity = preset, Identity(anonymous_entitlement(preset))
        return self._identity


def identity_of(scope: Mapping[str, Any]) -> Identity | None:
    """The identity of a request; None outside a server that has a route guard."""
    found = scope.get(IDENTITY)
    return found if isinstance(found, Identity) else None


def sender_of(scope: Mapping[str, Any]) -> Sender:
    """The sender of a request behind the route guard; a trusted proxy names the tenant."""
    identity = identity_of(scope) or NO_TENANT
    if not identity.trusted:
        return Sender(identity.tenant, identity.key_id)
    named = next((value for name, value in scope["headers"] if name == b"x-headway-tenant"), b"")
    return Sender(named.decode("latin-1"), trusted=True)
