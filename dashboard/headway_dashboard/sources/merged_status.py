"""The status of several servers, each asked by a source of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping

from headway_dashboard.analysis.server.fleet.merged_status import merged_status
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.sources.polled import FIRST_WAIT_S
from headway_dashboard.sources.server_status import ServerStatusSource


class MergedStatusSource:
    """Reads all sources and merges what they say. Closing it closes nothing: others read them as well."""

    def __init__(self, sources: Mapping[str, ServerStatusSource]) -> None:
        self._sources = dict(sources)

    def read(self) -> Status:
        """The status that holds for all of them. The first reading waits a second at most, for all together."""
        for source in self._sources.values():
            source.begin()
        until_s = time.monotonic() + FIRST_WAIT_S
        told = {name: source.read(max(0.0, until_s - time.monotonic())) for name, source in self._sources.items()}
        return merged_status(told)

    def close(self) -> None:
        """Leave the sources open."""
