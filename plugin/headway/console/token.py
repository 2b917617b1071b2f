"""The admin token of a command: ``HEADWAY_ADMIN_TOKEN``, or the file named by ``HEADWAY_ADMIN_TOKEN_FILE``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.console.exits import UsageError
from headway.secret_text import MAX_FILE_BYTES
from headway_policies.text_file import TextFileError, read_text_file

MIN_CHARS = 32


@dataclass(frozen=True, slots=True)
class Token:
    """A secret and the variable it came from; the secret stays out of the repr."""

    secret: str
    variable: str

    def __repr__(self) -> str:
        return f"Token(from {self.variable})"


def find_token(role: str, environ: Mapping[str, str]) -> Token | None:
    """The token of a role ("ADMIN" or "VIEWER"), or None. Raises UsageError for a file that cannot be read."""
    variable = f"HEADWAY_{role}_TOKEN"
    if secret := environ.get(variable, "").strip():
        return Token(secret, variable)
    if name := environ.get(f"{variable}_FILE", ""):
        return Token(_read(Path(name), f"{variable}_FILE"), f"{variable}_FILE")
    return None


def check_length(token: Token) -> None:
    """Refuse a token the server would refuse. Raises UsageError."""
    if len(token.secret) < MIN_CHARS:
        raise UsageError(
            f"{token.variable}: the token has {len(token.secret)} characters and needs at least {MIN_CHARS}; "
            'make one with: python3 -c "import secrets; print(secrets.token_urlsafe(32))"'
        )


def _read(path: Path, variable: str) -> str:
    try:
        secret = read_text_file(path, MAX_FILE_BYTES).strip()
    except TextFileError as error:
        raise UsageError(f"{variable}: {path} cannot be read: {error}") from None
    if not secret:
        raise UsageError(f"{variable}: {path} is empty; write the token into it")
    return secret
