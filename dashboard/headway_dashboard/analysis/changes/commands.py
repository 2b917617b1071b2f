"""The shell commands that do what the page Control does."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any


def command(url: str, *words: str, reason: str = "") -> str:
    """A command of ``headway`` for the server at ``url``."""
    said = [f"--reason={reason}"] if reason.startswith("-") else ["--reason", reason]
    return shlex.join(["headway", *words, "--url", url, *(said if reason else [])])


def use_command(
    url: str, name: str, *, reason: str = "", revert_after_s: float | None = None, revert_if: Sequence[str] = ()
) -> str:
    """Put a preset in force, for good or on trial."""
    after = [] if revert_after_s is None else ["--revert-after", f"{revert_after_s:g}s"]
    conditions = [word for condition in revert_if for word in ("--revert-if", condition)]
    return command(url, "preset", "use", name, *after, *conditions, reason=reason)


def limit_call(url: str, seats: int | None, revision: int, expires_s: float | None = None) -> str:
    """Set a limit. ``headway`` has no command for it: this is the call itself, with the token from a variable."""
    body: dict[str, Any] = {"seats": seats} if expires_s is None else {"seats": seats, "expires_s": expires_s}
    return " ".join(
        [
            'curl -X PUT -H "Authorization: Bearer $HEADWAY_ADMIN_TOKEN"',
            f"-H 'Content-Type: application/json' -H 'If-Match: \"{revision}\"'",
            f"-d {shlex.quote(json.dumps(body))} {shlex.quote(url + '/headway/v1/limit')}",
        ]
    )
