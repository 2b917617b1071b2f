"""The port through which pages read what a server says beyond its metrics."""

from __future__ import annotations

from typing import Protocol

from headway_dashboard.analysis.server.status import Status


class StatusSource(Protocol):
    """Gives the newest status of one server, or of several together."""

    def read(self) -> Status:
        """The newest answer; never raises, and waits a second at most."""
        ...

    def close(self) -> None:
        """Stop asking."""
        ...
