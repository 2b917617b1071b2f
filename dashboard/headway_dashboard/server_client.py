"""The admin clients of the dashboard: short time-outs, and no proxy of the environment."""

from __future__ import annotations

from headway.api import AdminClient

#: Shorter than those of a command: a page that is drawn waits for an answer.
TIMEOUT_S = (0.5, 5.0)


def admin_client(url: str, token: str | None, *, lenient: bool = False) -> AdminClient:
    """A client of the watched server; ``lenient`` as in ``headway.api``."""
    return AdminClient(url, token, timeout_s=TIMEOUT_S, use_proxies=False, lenient=lenient)
