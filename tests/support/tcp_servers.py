"""TCP servers of a test: one that does as told with each connection, one that accepts none, and an address of none."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress

Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(connected: Connected) -> AsyncIterator[str]:
    """The address of a server that does this with each connection, and then closes it."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await connected(reader, writer)
        finally:
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answering(response: bytes) -> Connected:
    """Reads a request with the body ``{}``, sends this and closes the connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(response)
        await writer.drain()

    return connected


@contextmanager
def accepting_none() -> Iterator[str]:
    """The address of a server whose queue of connections is full, as that of one that hangs."""
    with ExitStack() as opened:
        listener = opened.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        with suppress(TimeoutError):
            for _ in range(64):
                one = opened.enter_context(socket.socket())
                one.settimeout(0.1)
                one.connect(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def closed_address() -> str:
    """An address where nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"
