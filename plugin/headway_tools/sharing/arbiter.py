"""A step of sharing: read all servers, decide, set lower limits first and higher ones into what they leave.

A limit is raised only into seats that no server holds: ``total`` less, for every other server, the larger of its limit
and its taken seats. So once the servers have come within the total they stay there, running requests included, while a
server whose limit was lowered still drains.

    a server that does not answer    keeps its seats for EXPIRES_S, the time in which its command ends; then it has none
    a server left alone              keeps what it has; the others share the rest, and have a seat each in any case
    a command that fails             counts as given where that is more; the next step reads the server again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf

from headway.api import AdminError, RoleError, StaleError
from headway_policies.sharing import SeatShares, Share
from headway_tools.sharing.reading import ServerReading
from headway_tools.sharing.server import EXPIRES_S, SharedServer

#: A change of a server's limit is a revision and a line of its audit: at most so often; and a renewal.
CHANGE_EVERY_S = 4.0
RENEW_EVERY_S = 10.0
#: A pause is renewed when it would end within so long.
RENEW_PAUSE_S = 15.0


@dataclass(frozen=True, slots=True)
class Standing:
    """A server after a step: its limit and its pause, or why it has no command, or not all that it should have."""

    model: str
    seats: int
    paused: bool = False
    late: bool = False
    problem: str = ""

    @property
    def managed(self) -> bool:
        """Whether the server answers and follows commands."""
        return not self.problem


class Arbiter:
    """Shares ``total`` seats between servers. Raises ValueError where there are more servers than seats."""

    def __init__(self, servers: Sequence[SharedServer], total: int, shares: SeatShares | None = None) -> None:
        if not 0 < len(servers) <= total:
            raise ValueError(f"{len(servers)} servers need a seat each, and there are {total}")
        self._servers = {server.url: server for server in servers}
        self._total = total
        self._shares = shares or SeatShares()
        self._last: dict[str, tuple[ServerReading, float]] = {}
        self._set_s: dict[str, float] = {}
        self._problems: dict[str, str] = {}
        self._seen: Mapping[str, ServerReading] = {}

    @property
    def readings(self) -> Mapping[str, ServerReading]:
        """The servers that answered in the last step, by URL, as they were before its commands."""
        return self._seen

    def step(self, now_s: float) -> dict[str, Standing]:
        """Read, decide, set limits; by URL. ``now_s`` never runs back. Raises RoleError: the token may only read."""
        self._problems = {}
        seen = self._seen = self._look(now_s)
        committed = {url: self._committed(url, url in seen, now_s) for url in self._servers}
        managed = {url: reading for url, reading in seen.items() if not reading.left_alone}
        limits = {url: reading.limit for url, reading in seen.items()}
        shares: Mapping[str, Share] = {}
        if managed:
            others = sum(seats for url, seats in committed.items() if url not in managed)
            loads = {url: reading.load for url, reading in managed.items()}
            shares = self._shares.update(loads, max(len(managed), self._total - others), now_s)
            for url in sorted(managed, key=lambda url: shares[url].seats > managed[url].limit):
                limits[url] = self._limit(url, managed[url], shares[url].seats, committed, now_s)
        for url, reading in seen.items():
            self._stop_or_go(url, reading, paused=url in shares and shares[url].paused)
        return {url: self._standing(url, limits.get(url, 0), shares) for url in self._servers}

    def give_back(self) -> dict[str, str]:
        """End every command of this arbiter; by URL, what failed. A server that has never answered has none."""
        failed: dict[str, str] = {}
        for url, server in self._servers.items():
            if url not in self._last:
                continue
            try:
                try:
                    server.give_back()
                except StaleError:  # changed between the look and the command
                    server.give_back()
            except AdminError as error:
                failed[url] = str(error)
        return failed

    # ------------------------------------------------------------------ inside

    def _look(self, now_s: float) -> dict[str, ServerReading]:
        """Look at all servers at once, so that a hanging server hardly delays the renewals of the others."""
        with ThreadPoolExecutor(len(self._servers)) as pool:
            asked = {url: pool.submit(server.look) for url, server in self._servers.items()}
        seen: dict[str, ServerReading] = {}
        for url, answer in asked.items():
            try:
                seen[url] = answer.result()
            except AdminError as error:
                self._problems[url] = str(error)
            else:
                self._last[url] = seen[url], now_s
                self._problems[url] = seen[url].left_alone
        return seen

    def _committed(self, url: str, answers: bool, now_s: float) -> int:
        """The seats of a server that no other one may have."""
        last = self._last.get(url)
        if last is None or (not answers and now_s - last[1] >= EXPIRES_S):
            return 0
        return last[0].committed

    def _limit(self, url: str, reading: ServerReading, share: int, committed: dict[str, int], now_s: float) -> int:
        """Set the limit that is possible now, if there is something to set; returns the one in force."""
        room = self._total - sum(seats for other, seats in committed.items() if other != url)
        seats = share if share <= reading.limit else max(reading.limit, min(share, room))
        every_s = CHANGE_EVERY_S if seats != reading.limit or not reading.ordered else RENEW_EVERY_S
        if now_s - self._set_s.get(url, -inf) < every_s:
            return reading.limit
        done = self._set_limit(url, seats)
        # Where it failed the answer alone may have been lost.
        after = replace(reading, limit=seats if done else max(seats, reading.limit))
        self._last[url] = after, now_s
        committed[url] = after.committed
        if done:
            self._set_s[url] = now_s
        return seats if done else reading.limit

    def _set_limit(self, url: str, seats: int) -> bool:
        try:
            self._servers[url].set_limit(seats)
        except RoleError:
            raise
        except AdminError as error:
            self._problems[url] = str(error)
            return False
        return True

    def _stop_or_go(self, url: str, reading: ServerReading, *, paused: bool) -> None:
        """Pause or resume a server where it is not as it should be, and renew its pause in time."""
        try:
            if reading.paused and not paused:
                self._servers[url].resume()
            elif paused and (reading.can_pause or (reading.paused and reading.pause_left_s <= RENEW_PAUSE_S)):
                self._servers[url].pause()
        except AdminError as error:
            self._problems[url] = str(error)

    def _standing(self, url: str, limit: int, shares: Mapping[str, Share]) -> Standing:
        last = self._last.get(url)
        share = shares.get(url)
        return Standing(
            "" if last is None else last[0].model,
            limit,
            paused=share is not None and share.paused,
            late=url in self._shares.late and share is not None,
            problem=self._problems.get(url, ""),
        )
