"""Which errors of the HTTP client say that a server has not seen a request, as the client itself raises them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from tcp_servers import accepting_none, answering, closed_address, listening

from headway.router.forwarding.unsent import unsent


async def error_of(
    url: str, *, connector: aiohttp.TCPConnector | None = None, bounds_s: dict[str, float] | None = None, **asked: Any
) -> Exception:
    """What a request ends with."""
    within = aiohttp.ClientTimeout(total=None, **(bounds_s or {}))
    async with aiohttp.ClientSession(connector=connector, timeout=within) as session:
        try:
            async with session.post(url, data=b"{}", **asked) as response:
                await response.read()
        except (aiohttp.ClientError, OSError) as error:
            return error
    raise AssertionError("it was answered")


class NoName(AbstractResolver):
    """Knows no host."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        raise OSError(None, "no such name")

    async def close(self) -> None:
        """Nothing to close."""


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads what is sent, and says nothing."""
    await reader.read()


async def refused() -> Exception:
    return await error_of(f"http://{closed_address()}/")


async def no_such_name() -> Exception:
    return await error_of("http://instance.invalid/", connector=aiohttp.TCPConnector(resolver=NoName()))


async def not_accepted_in_time() -> Exception:
    with accepting_none() as address:
        return await error_of(f"http://{address}/", bounds_s={"sock_connect": 0.05})


async def none_free_in_the_pool_in_time() -> Exception:
    taken = asyncio.Event()

    async def first_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.set()
        await reader.read()

    async with (
        listening(first_one) as address,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session,
    ):
        first = asyncio.ensure_future(session.get(f"http://{address}/"))
        await taken.wait()
        try:
            await session.post(f"http://{address}/", timeout=aiohttp.ClientTimeout(connect=0.01))
        except aiohttp.ClientError as error:
            return error
        finally:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
    raise AssertionError("it was answered")


async def no_connection_to_a_proxy() -> Exception:
    return await error_of("http://instance.invalid/", proxy=f"http://{closed_address()}")


async def refused_by_a_proxy() -> Exception:
    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with listening(proxy) as address:
        return await error_of("https://instance.invalid/", proxy=f"http://{address}")


async def no_tls() -> Exception:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with listening(plain) as address:
        return await error_of(f"https://{address}/", ssl=ssl.create_default_context())


async def closed_without_an_answer() -> Exception:
    async with listening(answering(b"")) as address:
        return await error_of(f"http://{address}/")


async def no_answer_in_time() -> Exception:
    async with listening(silent) as address:
        return await error_of(f"http://{address}/", bounds_s={"sock_read": 0.05})


async def half_a_body() -> Exception:
    async with listening(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")) as address:
        return await error_of(f"http://{address}/")


Failing = Callable[[], Awaitable[Exception]]
UNSENT: list[Failing] = [
    refused, no_such_name, not_accepted_in_time, none_free_in_the_pool_in_time, no_connection_to_a_proxy,
    refused_by_a_proxy, no_tls,
]  # fmt: skip
SENT: list[Failing] = [closed_without_an_answer, no_answer_in_time, half_a_body]


@pytest.mark.parametrize("fails", UNSENT, ids=lambda one: one.__name__)
async def test_without_a_connection_the_request_was_not_sent(fails: Failing) -> None:
    """The request may go elsewhere, and counts against nobody."""
    error = await fails()
    assert unsent(error), repr(error)


@pytest.mark.parametrize("fails", SENT, ids=lambda one: one.__name__)
async def test_after_a_connection_it_may_have_been_sent(fails: Failing) -> None:
    """Whether the server has worked on it is not known."""
    error = await fails()
    assert not unsent(error), repr(error)
