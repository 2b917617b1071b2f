"""The shell commands that do what the page Control does."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any


def use_command(
    url: str, name: str, *, reason: str = "", revert_after_s: float | None = None, revert_if: Sequence[str] = ()
) -> str:
    """Put a preset in force, for good or on trial."""
    words = ["headway", "preset", "use", name]
    if revert_after_s is not None:
        words += ["--revert-after", f"{revert_after_s:g}s"]
    for one in revert_if:
        words += ["--revert-if", one]
    return _joined(words, url, reason)


def keep_command(url: str) -> str:
    """End a trial: the preset stays."""
    return _joined(["headway", "preset", "keep"], url)


def undo_command(url: str, revision: int | None = None) -> str:
    """Put an earlier revision in force again."""
    words = ["headway", "preset", "undo"]
    return _joined(words if revision is None else [*words, str(revision)], url)


def fallback_command(url: str, rung: str | None) -> str:
    """Put the fallback ladder on a rung; None: let it move by itself."""
    return _joined(["headway", "fallback", *(["auto"] if rung is None else ["set", rung])], url)


def recycle_command(url: str) -> str:
    """Replace the engine."""
    return _joined(["headway", "recycle"], url)


def pause_command(url: str, expires_s: float | None = None) -> str:
    """Suspend dispatch, for a time or until a resume."""
    return _joined(["headway", "pause", *([] if expires_s is None else ["--for", f"{expires_s:g}s"])], url)


def drain_command(url: str) -> str:
    """Refuse new and waiting requests."""
    return _joined(["headway", "drain"], url)


def resume_command(url: str) -> str:
    """End a pause or a drain."""
    return _joined(["headway", "resume"], url)


def warmup_command(url: str) -> str:
    """Warm the running engine up."""
    return _joined(["headway", "warmup"], url)


def limit_call(url: str, seats: int | None, revision: int, expires_s: float | None = None) -> str:
    """Hold a limit. ``headway`` has no command for it: this is the call itself, with the token from a variable."""
    body: dict[str, Any] = {"seats": seats} if expires_s is None else {"seats": seats, "expires_s": expires_s}
    return " ".join(
        [
            'curl -X PUT -H "Authorization: Bearer $HEADWAY_ADMIN_TOKEN"',
            f"-H 'Content-Type: application/json' -H 'If-Match: \"{revision}\"'",
            f"-d {shlex.quote(json.dumps(body))} {shlex.quote(url + '/headway/v1/limit')}",
        ]
    )


def _joined(words: Sequence[str], url: str, reason: str = "") -> str:
    said = [f"--reason={reason}"] if reason.startswith("-") else ["--reason", reason]
    return shlex.join([*words, "--url", url, *(said if reason else [])])
