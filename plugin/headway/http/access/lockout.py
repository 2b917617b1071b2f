"""Lock-out of addresses that present wrong keys or tokens: a bound on guessing.

The first wrong key of an address opens a window; ``most`` wrong keys within it lock the address until the window ends.
An address of IPv6 counts by its /64 network, which is what one subscriber has. Memory is bounded: beyond
MAX_ADDRESSES the oldest window is forgotten. Guessing from that many networks at once is out of reach of this bound;
keys of 32 random bytes are not guessed in either case.

A request without an address (a Unix socket) is neither counted nor locked: all clients would be locked together.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from headway.audit.network import network_of

MAX_ADDRESSES: Final = 4096
#: The bound of a server: so many wrong keys, or wrong tokens, from one address until a minute after the first.
MOST_WRONG: Final = 10
WINDOW_S: Final = 60.0


@dataclass(slots=True)
class _Window:
    ends_s: float
    wrong: int = 0


class Lockout:
    """Wrong keys by address. Times are those of one monotonic clock; touched from the event loop only."""

    __slots__ = ("_most", "_window_s", "_windows")

    def __init__(self, most: int, window_s: float) -> None:
        self._most = most
        self._window_s = window_s
        self._windows: OrderedDict[str, _Window] = OrderedDict()  # by their end, the earliest first

    def locked(self, address: str | None, now_s: float) -> float:
        """The seconds until this address may try again; 0 where it may now."""
        if address is None or not self._windows:
            return 0.0
        window = self._windows.get(network_of(address))
        if window is None or window.wrong < self._most:
            return 0.0
        return max(0.0, window.ends_s - now_s)

    def wrong(self, address: str | None, now_s: float) -> None:
        """Count one wrong key of this address."""
        if address is None:
            return
        self._forget_ended(now_s)
        network = network_of(address)
        window = self._windows.get(network)
        if window is None:
            if len(self._windows) >= MAX_ADDRESSES:
                self._windows.popitem(last=False)
            window = self._windows[network] = _Window(now_s + self._window_s)
        window.wrong += 1

    def __len__(self) -> int:
        return len(self._windows)

    def _forget_ended(self, now_s: float) -> None:
        while self._windows and next(iter(self._windows.values())).ends_s <= now_s:
            self._windows.popitem(last=False)
