"""A transport that writes down what uvicorn's protocol sends."""

from __future__ import annotations

import asyncio
from typing import Any


class Pipe(asyncio.Transport):
    """The connection of a client at this address; empty: a client without one."""

    def __init__(self, address: str = "") -> None:
        super().__init__({"peername": (address, 4711)} if address else None)
        self.written = b""
        self.closed = False
        self.protocol: asyncio.BaseProtocol | None = None

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self.protocol is not None
        return self.protocol
