"""The person or program behind an action."""

from __future__ import annotations

from dataclasses import dataclass

#: The role of a request without a valid token.
NO_ROLE = "none"


@dataclass(frozen=True, slots=True)
class Caller:
    """The author of an action, as known to the server.

    ``token_id`` is the beginning of the SHA-256 digest of the token that was sent, valid or not; empty without one.
    """

    actor: str = "unknown"
    role: str = NO_ROLE
    address: str = "-"
    token_id: str = ""
