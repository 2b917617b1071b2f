"""The discovery of instances that come and go: the addresses of DNS names, asked for again every few seconds.

    an address is new          it is asked every second, and gets requests once it is ready
    an address has left        it gets no new requests, and is forgotten when nothing runs there any more
    no answer, or an empty one the former addresses stay: an outage of the DNS, or a fleet of none, ends no instance

Each address of a name is an instance, as with a headless Service of Kubernetes. Of a name with both kinds of addresses
those of IPv4 are taken, since an instance with both would be in the list twice.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from headway.router.addresses import MAX_INSTANCES, Address, DnsName
from headway.router.instances.instance import InstanceLink
from headway.router.instances.pool import InstancePool

log = logging.getLogger(__name__)

EVERY_S: Final = 5.0

#: The IP addresses of a name; raises OSError where there is no answer, or none of them.
Resolve = Callable[[str], Awaitable[Sequence[str]]]


async def resolve(host: str) -> Sequence[str]:
    """The addresses that the system's resolver gives. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    four = {str(address[0]) for family, _, _, _, address in found if family is socket.AF_INET}
    return sorted(four or {str(address[0]) for family, _, _, _, address in found if family is socket.AF_INET6})


class Discovery:
    """The keeper of the pool at the addresses of these names, beside the instances that it had before.

    ``usual_seats`` are those of an instance that does not say how many it has.
    """

    def __init__(
        self, pool: InstancePool, names: Sequence[DnsName], usual_seats: int, resolve: Resolve = resolve
    ) -> None:
        self._pool = pool
        self._names = names
        self._usual_seats = usual_seats
        self._resolve = resolve
        self._fixed = frozenset(pool.links)
        self._found: dict[DnsName, Sequence[str]] = {}
        self._silent: set[DnsName] = set()
        self._left_out = 0

    async def run(self) -> None:
        """Ask for as long as the router runs."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.once()
            except Exception:  # the instances of before serve on
                log.exception("the addresses of the instances could not be brought up to date")

    async def once(self) -> None:
        """Ask for every name once, and apply the changes."""
        for name in self._names:
            await self._ask(name)
        wanted = {address.name: address for address in self._addresses()}
        for known, link in list(self._pool.links.items()):
            if known not in wanted and known not in self._fixed:
                self._pool.leave(link)
        for address in self._bounded(wanted):
            self._pool.join(InstanceLink(address, self._usual_seats))

    async def _ask(self, name: DnsName) -> None:
        try:
            found = await self._resolve(name.host)
        except (OSError, UnicodeError):  # the latter for what no name can be
            found = ()
        if found:
            self._silent.discard(name)
            self._found[name] = found
        elif name not in self._silent:
            self._silent.add(name)
            log.warning("%s has no address now; the instances of before stay", name.host)

    def _addresses(self) -> Iterator[Address]:
        return (name.address(ip) for name, found in self._found.items() for ip in found)

    def _bounded(self, wanted: dict[str, Address]) -> list[Address]:
        """The addresses that are in the pool, and others up to the most that it may have."""
        known = [address for name, address in wanted.items() if name in self._pool.links]
        new = [address for name, address in wanted.items() if name not in self._pool.links]
        room = MAX_INSTANCES - len(self._pool.links)
        if len(new) > room and len(new) - room != self._left_out:
            log.warning("%d instances are left out: at most %d are possible", len(new) - room, MAX_INSTANCES)
        self._left_out = max(0, len(new) - room)
        return known + new[: max(0, room)]
