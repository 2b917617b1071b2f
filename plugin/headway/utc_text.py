"""Times as the admin API, the logs and the audit write them: ISO 8601 in UTC, ending in Z."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(wall_s: float, timespec: str = "seconds") -> str:
    """A time in seconds since 1970; ``timespec`` is that of ``datetime.isoformat``."""
    return datetime.fromtimestamp(wall_s, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
