"""The tokens of the admin API.

They are not the inference key: they come from the environment or a file, have 32 to 512 characters, are kept as SHA-256
digests only, and are compared in constant time. A longer header is refused before it is hashed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping

from headway.api.routes import Role
from headway.api.secret_text import SecretFileError, find_secret, is_one_word
from headway.errors import HeadwayError

MIN_TOKEN_CHARS = 32
MAX_TOKEN_CHARS = 512
#: ``Bearer``, the token, and some spaces.
MAX_HEADER_CHARS = MAX_TOKEN_CHARS + 64
#: Hexadecimal digits of a digest that name a token in the audit file.
_ID_CHARS = 8

_VARIABLES = {"HEADWAY_ADMIN_TOKEN": Role.OPERATOR, "HEADWAY_VIEWER_TOKEN": Role.VIEWER}


class TokenError(HeadwayError):
    """A token that must not be used. Its text never contains the token."""


class Tokens:
    """The digests of the configured tokens; empty while the admin API is off."""

    def __init__(self, tokens: Mapping[str, Role]) -> None:
        self._digests = [(_digest(token), role) for token, role in tokens.items()]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Tokens:
        """Read ``HEADWAY_ADMIN_TOKEN``, ``HEADWAY_VIEWER_TOKEN`` or the files named by ``..._FILE``."""
        environment = os.environ if environment is None else environment
        found = {variable: read_token(variable, environment) for variable in _VARIABLES}
        if found["HEADWAY_ADMIN_TOKEN"] is not None and len(set(found.values())) == 1:
            raise TokenError("HEADWAY_VIEWER_TOKEN: must differ from HEADWAY_ADMIN_TOKEN")
        return cls({token: _VARIABLES[variable] for variable, token in found.items() if token is not None})

    def __bool__(self) -> bool:
        return bool(self._digests)

    def role(self, authorization: str | None) -> Role | None:
        """The role of an ``Authorization: Bearer ...`` header, or None. Every token is compared, whatever matches."""
        return self.identify(authorization)[0]

    def identify(self, authorization: str | None) -> tuple[Role | None, str]:
        """The same, and the beginning of the digest of the token that was sent, known or not; empty without one."""
        if authorization is None or len(authorization) > MAX_HEADER_CHARS:
            return None, ""
        scheme, _, token = authorization.partition(" ")
        digest = _digest(token.strip())
        found: Role | None = None
        for known, role in self._digests:
            if secrets.compare_digest(known, digest) and scheme.lower() == "bearer":
                found = role
        return found, digest.hex()[:_ID_CHARS]


def read_token(variable: str, environment: Mapping[str, str]) -> str | None:
    """The token from an environment variable or the file it names with ``_FILE``. Raises TokenError."""
    try:
        secret = find_secret(variable, environment)
    except SecretFileError as error:
        raise TokenError(str(error)) from None
    if secret is None or not secret.text:
        return None
    token = secret.text
    if not MIN_TOKEN_CHARS <= len(token) <= MAX_TOKEN_CHARS or not is_one_word(token):
        wanted = f"{MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS} printable ASCII characters without spaces"
        raise TokenError(f"{secret.source}: a token needs {wanted}; make one with: openssl rand -hex 32")
    return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
