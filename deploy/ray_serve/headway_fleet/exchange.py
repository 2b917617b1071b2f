"""One exchange with the server of a replica: a client's request, and the messages of the response.

A request that could not be sent goes to any other replica; one that was lost on the way counts against the server, and
in the end against the request. Which of the two an error means is decided where ``headway route`` asks, too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from http import HTTPStatus

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from headway.router.unsent import unsent
from headway_fleet.headers import of_server
from headway_fleet.messages import Forwarded, Head, Lost, Message

_CONNECT_S = 30.0


class ServerClient:
    """The HTTP client of one server. Make it, use it and ``close`` it on one event loop.

    ``answered`` counts the requests of which good output has come, ``failed`` those that the server has failed or lost
    before any output; only such as may need its engine, which are those with a body.
    """

    def __init__(self, connect_s: float = _CONNECT_S) -> None:
        self.answered = self.failed = 0
        self._session = aiohttp.ClientSession(
            # A connection that is kept could be closed by the server at the moment when a request is sent on it.
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_s),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def exchange(self, url: str, request: Forwarded) -> AsyncGenerator[Message, None]:
        """The response of the server at ``url``: Head and the body in pieces, Lost in place of what is missing."""
        counted, begun = bool(request.body), False
        try:
            async with self._session.request(
                request.method,
                URL(url + request.target, encoded=True),
                headers=CIMultiDict(request.headers),
                data=request.body or None,
                allow_redirects=False,
            ) as response:
                self.failed += counted and response.status == HTTPStatus.INTERNAL_SERVER_ERROR
                yield Head(response.status, of_server(response.headers.items()))
                async for piece in response.content.iter_any():
                    self.answered += counted and not begun and response.ok
                    begun = True
                    yield piece
        except (aiohttp.ClientError, OSError) as error:
            self.failed += counted and not begun
            yield Lost(f"{type(error).__name__}: {error}", had_it=not unsent(error))

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()
