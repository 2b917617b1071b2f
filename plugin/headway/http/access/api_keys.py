"""The keys that vLLM itself was given (``--api-key``, ``VLLM_API_KEY``).

They are kept as SHA-256 digests and compared in constant time, all of them whatever matches. vLLM checks them again,
behind the guard and on some paths only; ``inner`` is what it is given to check, in place of the client's own header.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from typing import Final

#: A longer header holds no key, and is not hashed.
MAX_KEY_CHARS: Final = 4096


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
