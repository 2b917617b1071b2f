"""The keys that are in force, and whose they are.

A key is kept as its SHA-256 digest only, and found by that digest. The time of a look-up may tell how much of the
digest of a guess is that of a known key. This time does not help to guess: a digest cannot be chosen, each bit of it
that is to match doubles the guesses, and from a known digest a key of 256 random bits cannot be worked out. So no
comparison in constant time is needed. A longer header than any key needs is not hashed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from types import MappingProxyType

from headway_policies.budgets import Budget
from headway_policies.entitlement import Entitlement

MAX_KEY_CHARS = 512
#: ``Bearer``, the key, and some spaces.
MAX_HEADER_CHARS = MAX_KEY_CHARS + 64

_PREFIX = "hw-"
_RANDOM_BYTES = 32
_KEY_CHARS = len(_PREFIX) + 43


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the keys file; ``digest`` is the SHA-256 of its text. ``expires`` None: never."""

    id: str
    digest: bytes
    tenant: str
    created: datetime
    expires: datetime | None = None
    note: str = ""

    @property
    def expires_s(self) -> float:
        """The time when the key expires, in seconds since 1970; infinite: never."""
        return inf if self.expires is None else self.expires.timestamp()


class KeyRing:
    """The keys of all tenants. A ring never changes: a file that has changed makes another one."""

    def __init__(self, keys: Iterable[Key], tenants: Mapping[str, Entitlement]) -> None:
        self.keys = tuple(keys)
        self.tenants: Mapping[str, Entitlement] = MappingProxyType(dict(tenants))
        self._by_id = {key.id: key for key in self.keys}
        self._found = {key.digest: (key.expires_s, (key.id, self.tenants[key.tenant])) for key in self.keys}

    @property
    def has_budgets(self) -> bool:
        """Whether a budget bounds a tenant."""
        return any(tenant.budgets for tenant in self.tenants.values())

    def entitlement_of_id(self, key_id: str, now_s: float) -> Entitlement | None:
        """The entitlement of the key with this id; None where it is not known, or has expired."""
        key = self._by_id.get(key_id)
        return None if key is None or now_s >= key.expires_s else self.tenants[key.tenant]

    def organisations(self) -> dict[str, Budget]:
        """The budget of every organisation that has one and tenants."""
        return {owner.name: owner.budget for tenant in self.tenants.values() for owner in tenant.budgets[1:]}

    def entitlement_of(
        self, authorization: str | None, x_api_key: str | None, now_s: float
    ) -> tuple[str, Entitlement] | None:
        """The id of the presented key and the rights of its tenant; None without a known key.

        ``authorization`` is a header ``Bearer KEY``, ``x_api_key`` the key alone, as Anthropic's clients send it; where
        both are presented, one that is known is enough. ``now_s`` is seconds since 1970: an expired key is not known.
        """
        for presented in (_bearer(authorization), x_api_key):
            if presented and len(presented) <= MAX_HEADER_CHARS:
                found = self._found.get(digest_of(presented.strip()))
                if found is not None and now_s < found[0]:
                    return found[1]
        return None


def digest_of(key: str) -> bytes:
    """The SHA-256 of a key."""
    return hashlib.sha256(key.encode(errors="replace")).digest()


def new_key() -> str:
    """A key of 256 random bits: ``hw-`` and 43 characters that need no quoting in a URL, a header or a shell."""
    return _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def is_key(text: str) -> bool:
    """Whether a text looks like a key of ``new_key``, which must stand in no file and no log."""
    return text.startswith(_PREFIX) and len(text) >= _KEY_CHARS


def _bearer(authorization: str | None) -> str | None:
    """The word behind ``Bearer`` in a header that is not too long."""
    if authorization is None or len(authorization) > MAX_HEADER_CHARS:
        return None
    scheme, _, key = authorization.partition(" ")
    return key if scheme.lower() == "bearer" else None
