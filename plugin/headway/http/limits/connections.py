"""The open connections of one server process, counted in all and by address.

A few more are let in as spares, for the requests of probes alone: a server that is full is not dead.

An IPv6 client has a whole network of 64 bits, so one network counts as one address. Behind a proxy all connections
have the proxy's address: there only the bound of all makes sense.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from headway.audit.network import network_of

_MOST_SPARES: Final = 64


class Connections:
    """The count of open connections, used on the event loop only."""

    def __init__(self, max_all: int, max_per_address: int | None = None) -> None:
        self._max_all = max_all
        self._max_per_address = max_per_address
        self._open = self._spares = 0
        self._by_address: Counter[str] = Counter()

    def enter(self, address: str | None) -> bool:
        """Count a connection, or not where there are too many. None: an address that has no bound, a socket file."""
        if self._open >= self._max_all:
            return False
        if address is not None and self._max_per_address is not None:
            network = network_of(address)
            if self._by_address[network] >= self._max_per_address:
                return False
            self._by_address[network] += 1
        self._open += 1
        return True

    def enter_spare(self) -> bool:
        """Count a connection beyond the bound, or not where there are too many of those."""
        if self._spares >= _MOST_SPARES:
            return False
        self._spares += 1
        return True

    def leave_spare(self) -> None:
        """A spare connection is closed."""
        self._spares -= 1

    def leave(self, address: str | None) -> None:
        """A connection that was counted is closed."""
        self._open -= 1
        if address is not None and self._max_per_address is not None:
            network = network_of(address)
            self._by_address[network] -= 1
            if self._by_address[network] <= 0:
                del self._by_address[network]
