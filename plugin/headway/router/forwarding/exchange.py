"""HTTP with the instances: one client for all of them, and the exchange with an instance.

Nothing is decompressed, no redirect is followed, no proxy of the environment is used. A connection that was idle for
longer than two seconds is not used again, since servers close theirs after five.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

import aiohttp
from yarl import URL

from headway.router.addresses import Address
from headway.router.forwarding.call import Call, InstanceLostError
from headway.router.forwarding.forwarded import Forwarded, Headers, Piece, beyond_connection
from headway.router.forwarding.token_events import TokenEvents, is_comment
from headway.router.forwarding.unsent import unsent
from headway.router.forwarding.usage import UsageReader

_CONNECT_S: Final = 5.0
_IDLE_S: Final = 2.0
_MAX_LINE_BYTES: Final = 32 * 1024
_MAX_METRICS_BYTES: Final = 8 * 1024 * 1024


class InstanceClient:
    """The HTTP client of all instances. Use it on one event loop, and ``close`` it there.

    ``key`` is sent as theirs. With the path of a Unix ``socket`` every connection goes there.
    """

    def __init__(self, key: str | None = None, socket: str | None = None) -> None:
        self._key = key
        self._socket = socket
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> aiohttp.ClientSession:
        """The session, begun with the first use."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
                auto_decompress=False,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                max_line_size=_MAX_LINE_BYTES,
                max_field_size=_MAX_LINE_BYTES,
                skip_auto_headers=("accept", "accept-encoding", "user-agent", "content-type"),
            )
        return self._session

    def _connector(self) -> aiohttp.BaseConnector:
        if self._socket is not None:
            return aiohttp.UnixConnector(self._socket, limit=0, keepalive_timeout=_IDLE_S)
        return aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S)

    def _own(self) -> Headers:
        return () if self._key is None else (("authorization", f"Bearer {self._key}"),)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, address: Address, path: str, within_s: float) -> tuple[int, str]:
        """The status and the text of a small GET.

        Raises OSError, TimeoutError or aiohttp.ClientError, and ValueError where the text is too long.
        """
        within = aiohttp.ClientTimeout(total=within_s)
        async with self.open().get(
            f"{address.url}{path}", headers=dict(self._own()), timeout=within, allow_redirects=False
        ) as response:
            text = bytearray()
            async for part in response.content.iter_chunked(64 * 1024):
                text += part
                if len(text) > _MAX_METRICS_BYTES:
                    raise ValueError(f"{path} of {address.name} is longer than {_MAX_METRICS_BYTES} bytes")
            return response.status, text.decode("utf-8", "replace")

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        """The pieces of the response of one instance; the first comes with the first bytes of its body.

        Raises InstanceLostError where there is no whole response, and what interrupts the call.
        """
        response: aiohttp.ClientResponse | None = None
        usage = UsageReader(prompt_tokens)
        try:
            response = await call.step(self._begin(address, request), aiohttp.ClientResponse.close)
            call.let_go.append(response.close)
            status: int | None = response.status
            headers = beyond_connection(response.headers.items())
            streams = response.content_type == "text/event-stream"
            tokens = TokenEvents(request.target, streams=streams)
            while part := await call.read(response.content):
                if streams and status is not None and is_comment(part):
                    continue  # a server that keeps the connection alive has no token yet
                usage.add(part)
                yield Piece(part, status, headers, tokens=tokens.count(part))
                status, headers = None, ()
            yield Piece(b"", status, headers, last=True, usage=usage.usage())
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise InstanceLostError(address.name, sent=not unsent(error)) from error
        finally:
            if response is not None:
                with suppress(Exception):
                    response.close()

    async def _begin(self, address: Address, request: Forwarded) -> aiohttp.ClientResponse:
        return await self.open().request(
            request.method,
            URL(address.url + request.target, encoded=True),
            headers=[*request.headers, *self._own()],
            data=request.body or None,
            allow_redirects=False,
        )
