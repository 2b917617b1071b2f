"""A closed loop of clients beside a sweep, for a server without load of its own."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from types import TracebackType

from headway.errors import HeadwayError
from headway_simulator.traffic.workload import WORKLOADS
from headway_tools.console import FailedError
from headway_tools.load.completions import Completions
from headway_tools.load.offered import Source
from headway_tools.load.sender import Sender

_READY_WITHIN_S = 60.0
_FINISH_WITHIN_S = 20.0  # of the last requests, which are then given up
_END_WITHIN_S = 30.0
_TIMEOUT_S = 300.0


class OwnLoad:
    """The load of several clients, each with one chat request of a class at a time, until the ``with`` block ends."""

    def __init__(self, url: str, clients: int, class_name: str, key: str | None) -> None:
        self._url, self._clients, self._key = url, clients, key
        self._source = Source(WORKLOADS["W1"], classes={class_name: 1.0})
        self._ready = threading.Event()
        self._failed: HeadwayError | None = None
        self._ended_early = False
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="headway tune load", daemon=True)

    def __enter__(self) -> OwnLoad:
        """Start the load. Raises FailedError where the server does not suit."""
        self._thread.start()
        if not self._ready.wait(_READY_WITHIN_S) or self._failed is not None:
            raise FailedError(str(self._failed or f"{self._url}: the load did not start"))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_END_WITHIN_S)
        if self._ended_early and error is None:
            raise FailedError(
                f"{self._url}: the clients of --with-load ended early; the figures are not those of full seats"
            )

    def _work(self) -> None:
        try:
            asyncio.run(self._run())
        except HeadwayError as error:
            self._failed = error
        finally:
            self._ready.set()

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with Completions(self._url, key=self._key, timeout_s=_TIMEOUT_S) as server:
            source = replace(self._source, max_tokens=server.model.max_tokens)
            sender = Sender(server.complete, lambda served: None)
            filling = asyncio.create_task(sender.keep_busy(source.endless(1), self._clients, self._stop))
            self._ready.set()
            stopped = asyncio.create_task(self._stop.wait())
            await asyncio.wait({filling, stopped}, return_when=asyncio.FIRST_COMPLETED)
            self._ended_early = not stopped.done()
            stopped.cancel()
            await asyncio.wait({filling}, timeout=_FINISH_WITHIN_S)
            filling.cancel()
            await sender.abandon()
            await asyncio.gather(filling, return_exceptions=True)
