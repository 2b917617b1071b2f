"""Tests of the figures of the benchmark of retry storms."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("openai", reason="the client of OpenAI's API is not installed")

import retry_storms as storms
from serving.client import ended


def test_goodput_counts_what_was_in_time_while_it_counts() -> None:
    """Neither what ended before or after, nor what waited longer than the objective."""
    served = [storms.Served(ended_s, queued_s) for ended_s in (1.0, 5.0, 9.0, 14.9, 15.0) for queued_s in (0.0, 0.6)]
    assert storms.goodput_per_s(served, 5.0, 10.0, objective_s=0.5) == 3 / 10


def test_each_number_of_retries_is_compared_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the means of its blocks."""

    async def blocks() -> dict[int, list[storms.Block]]:
        pairs = {0: (10.0, 1.0), 2: (9.8, 1.5), 5: (9.0, 1.7)}
        return {retries: [storms.Block(value - 1, ratio), storms.Block(value + 1, ratio)]
                for retries, (value, ratio) in pairs.items()}  # fmt: skip

    monkeypatch.setattr(storms, "_blocks", blocks)
    goals = list(storms.retry_storms())
    assert [(round(one.reached, 2), one.met) for one in goals] == [(1.5, True), (0.98, True), (1.7, True), (0.9, False)]
    assert "1.70 arrivals for each first try" in goals[3].note


async def test_an_error_of_a_client_ends_the_benchmark() -> None:
    """Only a cut-off request is no error."""

    async def fails() -> None:
        raise RuntimeError("broken")

    waits: Any = asyncio.create_task(asyncio.Event().wait())
    broken = asyncio.create_task(fails())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="broken"):
        await ended([waits, broken])
