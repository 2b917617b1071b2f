"""Forwarding: one client's request to a replica, and to another one as long as its client has got nothing.

    the server or its replica has ended     once more, on a replica that has not had it; never a third time
    its server could not be reached         on every other replica
    503 draining, not_ready, engine_lost,   on every other replica; the last answer where all of them say so
        out_of_memory, too_many_connections
    any other answer                        it is the client's: a queue that is full, a time-out, an error of its own

A stream has begun for its client with its first bytes, a JSON body when it is whole. An answer that breaks off later is
not tried again: a stream ends with an error event, any other response with its connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from http import HTTPStatus

from headway.api_errors import BadRequest
from headway.router.forwarding.call import InstanceLostError, NoInstanceError
from headway.router.forwarding.forwarded import Forwarded, Piece
from headway.router.forwarding.relay import Relay
from headway.router.forwarding.tries import AWAY, MOST_LOST, Held, reason_of
from headway_fleet.client_requests import forwarded
from headway_policies import Reason

log = logging.getLogger("ray.serve")

#: Sends a request to a replica but for those that were tried: its name, then the pieces of its response. Raises
#: InstanceLostError, and NoInstanceError where too many requests wait for one.
Send = Callable[[Forwarded, frozenset[str]], AsyncGenerator[str | Piece, None]]

#: The header of a response that names the replica.
REPLICA = "x-headway-replica"
_ELSEWHERE = AWAY | {"too_many_connections"}
_AGAIN_S = 2.0
_RETRY_AFTER_S = 5
_LOST = BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, "the server was lost while it answered", "engine_lost")
#: Serve's own proxy adds these to every response; the id is the same, that of the request.
_OF_SERVE = frozenset({"date", "server", "x-request-id"})


@dataclass(frozen=True, slots=True)
class Lost:
    """The missing rest of a response: the server has ended, or broke it off; ``error`` says how. ``sent``:
    the request may have reached it.
    """

    error: str
    sent: bool


def relay(send: Send, route_s: float) -> Relay:
    """The way of clients to the replicas. ``route_s`` bounds the wait for a replica, not that for its answer."""
    return Relay(lambda scope, body: fetch(send, route_s, forwarded(scope, body)), _LOST, _OF_SERVE)


async def fetch(send: Send, route_s: float, request: Forwarded) -> AsyncGenerator[Piece, None]:
    """The pieces of the response. Raises NoInstanceError where no replica gives one, InstanceLostError where it breaks
    off."""
    tried, lost, refusal = frozenset[str](), 0, list[Piece]()
    while lost < MOST_LOST:
        begun, refused, held = False, list[Piece](), Held()
        try:
            async with aclosing(send(request, tried)) as messages:
                async with asyncio.timeout(_AGAIN_S if refusal else route_s):
                    name = str(await anext(messages))
                tried |= {name}
                async for piece in messages:
                    assert isinstance(piece, Piece)
                    if piece.status is not None:
                        piece = replace(piece, headers=(*piece.headers, (REPLICA, name)))
                    if refused or reason_of(piece) in _ELSEWHERE:
                        refused.append(piece)
                        continue
                    for event in held.add(piece):
                        begun = True
                        yield event
            if not refused:
                return
            refusal = refused
        except (NoInstanceError, TimeoutError) as error:
            said = error.__cause__ if isinstance(error, NoInstanceError) else "none in time"
            log.warning("headway: no replica has taken a request: %s", said)
            break
        except InstanceLostError as error:
            log.warning("headway: %s with a request%s: %s", error, "" if error.sent else " unsent", error.__cause__)
            if begun:
                raise
            lost += error.sent
    if not refusal:
        why = Reason.POISON if lost >= MOST_LOST else Reason.ENGINE_LOST if lost else Reason.NOT_READY
        raise NoInstanceError(why, _RETRY_AFTER_S)
    for piece in refusal:
        yield piece
