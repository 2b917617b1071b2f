"""The other fronts before the same instances: asked twice a second for the seats that they claim (``FrontShare``).

Every front answers ``/headway/front`` with its present claims, to anybody: numbers that ``/metrics`` has as well. All
fronts are started with the same list of addresses; each finds itself in the list by the name that it gave itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from http import HTTPStatus
from math import ceil
from typing import Final
from uuid import uuid4

import aiohttp
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headway.admission import loop_time_s
from headway.router.addresses import Address
from headway.router.forwarding.exchange import InstanceClient
from headway.router.instances.pool import InstancePool
from headway_policies import Desk
from headway_policies.sharing import FrontClaims, FrontShare

log = logging.getLogger(__name__)

EVERY_S: Final = 0.5
_WITHIN_S: Final = 1.0
_PATH: Final = "/headway/front"
#: So long it may take until this one listens.
_STARTS_S: Final = 5.0
_MOST_SEATS: Final = 10**6
_NAME_CHARS: Final = 64


class Fronts:
    """All fronts, this one's too, seen from this one. ``desk`` is its own, to be set before the first round."""

    def __init__(self, addresses: Sequence[Address], pool: InstancePool, client: InstanceClient | None = None) -> None:
        self.desk: Desk | None = None
        self.share = FrontShare(uuid4().hex, [address.name for address in addresses])
        self._addresses = addresses
        self._pool = pool
        self._client = client or InstanceClient()  # without the key of the instances
        self._told = 0, True
        self._began_s = loop_time_s()
        self.route = Route(_PATH, self._answer)

    async def once(self) -> None:
        """Ask all fronts once, and tell the pool what this front may fill from now on."""
        seats = {name: link.seats for name, link in self._pool.links.items() if not link.leaving}
        began_s = loop_time_s()
        assert self.desk is not None, "the desk is set before the first round"
        reading = self.desk.read(began_s)
        self.share.aim(seats, reading.wanted_seats, min(reading.whole_limit, self._pool.seats()), began_s)
        self._grant()
        await asyncio.gather(*(self._ask(address) for address in self._addresses))
        self.share.settle(seats, {name: link.read_s for name, link in self._pool.links.items()}, began_s)
        self._grant()
        self._tell()

    async def run(self) -> None:
        """Ask again and again, for as long as the front runs."""
        while True:
            began_s = loop_time_s()
            try:
                await self.once()
            except Exception:  # its seats are kept for two seconds, then none are filled until a round succeeds
                log.exception("the other fronts could not be asked")
            await asyncio.sleep(max(0.0, began_s + EVERY_S - loop_time_s()))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def claims(self) -> FrontClaims:
        """This front's claims now: of each instance the seats that run there, at least its part of the limit."""
        taken = 0.0 if self.desk is None else min(1.0, self.desk.seats_taken / self.share.limit)
        links = self._pool.links.items()
        return self.share.claims({name: max(link.sent, ceil(link.seats * taken)) for name, link in links})

    async def _answer(self, request: Request) -> Response:
        return JSONResponse(asdict(self.claims()))

    async def _ask(self, address: Address) -> None:
        """Ask one front. Anything but an answer is silence, unless nothing listens there."""
        try:
            status, text = await self._client.get(address, _PATH, _WITHIN_S)
            if status == HTTPStatus.OK:
                self.share.hear(address.name, read_claims(text), loop_time_s())
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            if isinstance(getattr(error, "os_error", error), ConnectionRefusedError):
                self.share.gone(address.name, loop_time_s())

    def _grant(self) -> None:
        self._pool.grant(self.share.granted, self.share.until_s)

    def _tell(self) -> None:
        now = self.share.others, self.share.hears_itself
        if now == self._told or (not now[1] and loop_time_s() < self._began_s + _STARTS_S):
            return
        self._told = now
        words = "" if now[1] else "; none of --fronts is this one yet, so it takes no more than its even share"
        log.info("other fronts: %d of %d%s", now[0], len(self._addresses) - 1, words)


def read_claims(text: str) -> FrontClaims:
    """The claims of a front, from its answer. Raises ValueError."""
    try:
        said = json.loads(text)
        front, wanted, limit = str(said["front"])[:_NAME_CHARS], int(said["wanted"]), int(said["limit"])
        seats = {str(name): int(number) for name, number in said["seats"].items()}
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError("no claims of a front") from error
    if not (wanted >= 0 and all(0 <= number <= _MOST_SEATS for number in (limit, *seats.values()))):
        raise ValueError("no claims of a front")
    return FrontClaims(front, min(wanted, _MOST_SEATS), limit, seats)
