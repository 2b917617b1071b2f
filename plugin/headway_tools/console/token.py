"""The tokens of a command, from its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headway.api.secret_text import Secret, SecretFileError, find_secret
from headway.http import MIN_TOKEN_CHARS
from headway_tools.console.exits import UsageError


def find_token(role: str, environ: Mapping[str, str]) -> Secret | None:
    """The token of a role ("ADMIN" or "VIEWER"), or None. Raises UsageError for a file without a readable token."""
    try:
        token = find_secret(f"HEADWAY_{role}_TOKEN", environ)
    except SecretFileError as error:
        raise UsageError(str(error)) from None
    if token is None or not token.text.strip():
        if token is not None and token.path is not None:
            raise UsageError(f"{token.source}: is empty; write the token into it")
        return None
    return replace(token, text=token.text.strip())


def check_length(token: Secret) -> None:
    """Refuse a token the server would refuse. Raises UsageError."""
    if len(token.text) < MIN_TOKEN_CHARS:
        raise UsageError(
            f"{token.variable}: the token has {len(token.text)} characters and needs at least {MIN_TOKEN_CHARS}; "
            'make one with: python3 -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
