"""The tokens of the admin API.

They are not the inference key: they come from the environment or a file, have 32 to 512 characters, are kept as SHA-256
digests only, and are compared in constant time. A longer header is refused before it is hashed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping

from headway.api.routes import Role
from headway.errors import HeadwayError
from headway.settings import MAX_TOKEN_CHARS, Environment

#: ``Bearer``, the token, and some spaces.
MAX_HEADER_CHARS = MAX_TOKEN_CHARS + 64
#: Hexadecimal digits of a digest that name a token in the audit file.
_ID_CHARS = 8


class Tokens:
    """The digests of the configured tokens; empty while the admin API is off."""

    def __init__(self, tokens: Mapping[str, Role]) -> None:
        self._digests = [(_digest(token), role) for token, role in tokens.items()]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Tokens:
        """Read ``HEADWAY_ADMIN_TOKEN``, ``HEADWAY_VIEWER_TOKEN`` or the files named by ``..._FILE``."""
        found = Environment(environment)
        admin, viewer = found.admin_token, found.viewer_token
        if admin is not None and viewer is not None and admin.text == viewer.text:
            raise HeadwayError("HEADWAY_VIEWER_TOKEN: must differ from HEADWAY_ADMIN_TOKEN")
        roles = ((admin, Role.OPERATOR), (viewer, Role.VIEWER))
        return cls({secret.text: role for secret, role in roles if secret is not None})

    def __bool__(self) -> bool:
        return bool(self._digests)

    def role(self, authorization: str | None) -> Role | None:
        """The role of an ``Authorization: Bearer ...`` header, or None. Every token is compared, whatever matches."""
        return self.identify(authorization)[0]

    def identify(self, authorization: str | None) -> tuple[Role | None, str]:
        """The role, and the beginning of the digest of the token that was sent, known or not; empty without a token."""
        if authorization is None or len(authorization) > MAX_HEADER_CHARS:
            return None, ""
        scheme, _, token = authorization.partition(" ")
        digest = _digest(token.strip())
        found: Role | None = None
        for known, role in self._digests:
            if secrets.compare_digest(known, digest) and scheme.lower() == "bearer":
                found = role
        return found, digest.hex()[:_ID_CHARS]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
