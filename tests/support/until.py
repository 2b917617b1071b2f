"""Waiting for what rings no bell: the state of another process, thread or engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], object], within_s: float = 30.0, every_s: float = 0.01) -> None:
    """Look until something holds; TimeoutError where it does not."""
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(every_s)
