"""The summary of a recording, against figures that are computed from the plain rows."""

from __future__ import annotations

import asyncio
import math
from itertools import pairwise
from statistics import mean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.recorder import Recorder, summarise
from headway_policies import Ticket, Usage

ROW = st.tuples(
    st.floats(0.0, 3.0),
    st.sampled_from(["realtime", "normal"]),
    st.integers(1, 50),
    st.integers(0, 90),
    st.integers(1, 4),
)


def nearest(values: list[int], ratio: float) -> int:
    """A quantile by nearest rank."""
    return sorted(values)[math.ceil(ratio * len(values)) - 1]


@given(drawn=st.lists(ROW, min_size=1, max_size=1200))
def test_a_summary_is_that_of_the_rows(drawn: list[tuple[float, str, int, int, int]]) -> None:
    """Also across its portions: rates, lengths by class, gaps, peaks and tenants."""
    recorder, now_s, times_s = Recorder(), 0.0, list[float]()
    for number, (gap_s, name, prompt, output, tenant) in enumerate(drawn):
        now_s += gap_s
        times_s.append(now_s)
        one = Ticket(number, name, now_s, f"t{tenant}", prompt_tokens=prompt)
        recorder.arrived(one)
        if output:
            recorder.completed(one, Usage(prompt, output))
    found = asyncio.run(summarise(recorder.recording(now_s + 1.0)))
    first_s, span_s = times_s[0], now_s + 1.0 - times_s[0]
    assert (found.requests, found.tenants) == (len(drawn), len({row[4] for row in drawn}))
    assert found.rate_per_s == pytest.approx(len(drawn) / span_s)
    for name in {row[1] for row in drawn}:
        own, rows = found.classes[name], [row for row in drawn if row[1] == name]
        prompts, outputs = [row[2] for row in rows], [row[3] for row in rows if row[3]]
        assert own.requests == len(rows)
        assert own.prompt_tokens is not None
        assert own.prompt_tokens.mean == pytest.approx(mean(prompts))
        assert (own.prompt_tokens.p50, own.prompt_tokens.p95) == (nearest(prompts, 0.5), nearest(prompts, 0.95))
        assert (own.output_tokens is None) == (not outputs)
        if own.output_tokens is not None:
            assert (own.output_tokens.count, own.output_tokens.maximum) == (len(outputs), max(outputs))
            assert own.output_tokens.p99 == nearest(outputs, 0.99)
    gaps = [after - before for before, after in pairwise(times_s)]
    if found.gap_cv is not None and mean(gaps) > 1e-3:
        assert found.gap_cv == pytest.approx(pstdev(gaps) / mean(gaps), rel=1e-3, abs=1e-4)
    if found.peak_ratio is not None:
        busiest = max(sum(int((now_s + 1.0 - at_s) // 10) == part for at_s in times_s) for part in range(400))
        assert found.peak_ratio == pytest.approx(busiest * span_s / (10 * len(drawn)))
    assert first_s >= 0


async def test_nothing_arrived() -> None:
    """All that needs a request is None."""
    found = await summarise(Recorder().recording(5.0))
    assert (found.requests, found.rate_per_s, found.span_s, found.gap_cv, found.peak_ratio) == (0, 0.0, 0.0, None, None)
    assert found.classes == {}


async def test_the_event_loop_goes_on_while_many_rows_are_read() -> None:
    """A portion at a time: another task has its turns in between."""
    recorder, turns = Recorder(), 0
    for number in range(20_000):
        recorder.arrived(Ticket(number, "normal", number / 100))

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    assert (await summarise(recorder.recording(200.0))).requests == 20_000
    task.cancel()
    assert turns >= 30
