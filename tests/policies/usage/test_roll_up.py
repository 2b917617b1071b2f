"""The sums of records by minute, hour and day."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headway_policies import Outcome, Reason
from headway_policies.usage import Figures, Group, Period, UsageRecord, kv_token_s, roll_up, total

WORDS = st.sampled_from(("", "a", "b", "c"))
COUNTS = st.integers(0, 10**6)
TIMES = st.floats(0, 10**6, allow_nan=False).map(lambda value: round(value, 3))


@st.composite
def records(draw: Any) -> UsageRecord:
    """Any record: of a clock that may stand anywhere, also before 1970."""
    prompt_tokens, reason = draw(COUNTS), draw(st.sampled_from(("", *Reason)))
    return UsageRecord(
        draw(st.integers(-(10**6), 4 * 10**9)) + draw(st.floats(0, 1, exclude_max=True)),
        Group(
            draw(WORDS), draw(WORDS), draw(WORDS), draw(WORDS), draw(WORDS),
            draw(st.sampled_from(Outcome)).value, reason,
        ),
        Figures(
            1, int(reason != ""), prompt_tokens, draw(st.integers(0, prompt_tokens)), draw(COUNTS),
            draw(TIMES), draw(TIMES), draw(TIMES),
        ),
    )  # fmt: skip


@given(st.lists(records(), max_size=60))
def test_each_kind_of_period_sums_up_to_the_records(given_records: list[UsageRecord]) -> None:
    """Counts exactly, times but for the last digits; and each row is of the requests that ended in its period."""
    wanted = total(record.figures for record in given_records)
    rows = roll_up(given_records)
    for period in Period:
        found = total(figures for (kind, _), groups in rows.items() if kind is period for figures in groups.values())
        assert found[:5] == wanted[:5]
        assert all(
            abs(own - other) <= 1e-6 * (1 + abs(other)) for own, other in zip(found[5:], wanted[5:], strict=True)
        )
    for (period, start_s), groups in rows.items():
        own = [record for record in given_records if start_s <= record.ended_s < start_s + period]
        assert start_s % period == 0
        assert sum(figures.requests for figures in groups.values()) == len(own)


def test_the_kv_cache_of_a_request_is_that_of_its_stages() -> None:
    """Half of the prompt until the first token, then all of it and half of the answer, for each sequence."""
    assert kv_token_s(10.0, 1, 4.0, 100, 20) == 4 * 50 + 6 * 110
    assert kv_token_s(20.0, 2, 4.0, 200, 40) == 2 * kv_token_s(10.0, 1, 4.0, 100, 20)
    assert kv_token_s(10.0, 1, None, 100, 0) == 10 * 50
    assert kv_token_s(3.0, 1, 4.0, 100, 20) == 3 * 50
    assert kv_token_s(0.0, 1, None, 100, 20) == 0
