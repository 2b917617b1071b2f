"""The keys that vLLM itself was given (``--api-key``, ``VLLM_API_KEY``), and the key that a request presents.

They are kept as SHA-256 digests and compared in constant time, all of them whatever matches. vLLM checks them again,
behind the guard and on some paths only; ``inner`` is what it is given to check, in place of the client's own header.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from starlette.types import Scope

#: A longer header holds no key, and is not hashed.
MAX_KEY_CHARS: Final = 4096


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


class ApiKeys:
    """vLLM's own keys; empty where it has none."""

    __slots__ = ("_digests", "inner")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        known = [key for key in keys if key]
        self._digests = [_digest(key) for key in known]
        self.inner = f"Bearer {known[0]}".encode() if known else None

    def __bool__(self) -> bool:
        return bool(self._digests)

    def know(self, key: str | None) -> bool:
        """Whether this is one of them."""
        if key is None or len(key) > MAX_KEY_CHARS:
            return False
        digest, found = _digest(key), False
        for known in self._digests:
            found |= secrets.compare_digest(known, digest)
        return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
