"""Batch functions for the tests of the batcher, and what came of its requests."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from headway import Batcher


def double(item: int) -> int:
    """The result for an item in most tests: unique for each item."""
    return 2 * item


def outcomes(batcher: Batcher[Any, Any]) -> dict[str, int]:
    """How many requests ended how."""
    return {outcome: number for outcome, number in batcher.stats()["outcomes"].items() if number}


class Recorder:
    """Doubles numbers in ``takes_s``, and keeps every batch it saw with the time it began.

    A batch with one of the ``bad`` items raises ValueError of that item.
    """

    def __init__(self, takes_s: float = 0.0, bad: Collection[int] = ()) -> None:
        self.batches: list[list[int]] = []
        self.begun_s: list[float] = []
        self.ended = 0
        self._takes_s = takes_s
        self._bad = bad

    async def __call__(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        self.begun_s.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._takes_s)
        for item in items:
            if item in self._bad:
                raise ValueError(item)
        self.ended += 1
        return [double(item) for item in items]
