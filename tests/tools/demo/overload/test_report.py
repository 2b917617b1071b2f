"""The overload in words."""

from __future__ import annotations

import dataclasses

import pytest
from overload_example import OVERLOAD

from headway_tools.demo.overload.report import overload_lines, whole_ms


def test_the_report_says_what_the_policies_did() -> None:
    """Every figure from the overload's, with Headway and without it."""
    assert overload_lines(OVERLOAD) == [
        "  overload    300 requests in 10 s: 30.0 a second, 1.5 times the 20.0 of the full engine; 1 without an answer",
        "  served      realtime 98 of 100, batch 120 of 200",
        "  meanwhile   realtime 97 of 100, batch 80 of 200 before the overload was over",
        "  in time     realtime 96 of 100, batch 90 of 200 (a first token within 0.45 s, any time)",
        "  without Headway, the same arrivals in vLLM's own queue, simulated with the step time of this engine:",
        "    served    realtime 100 of 100, batch 200 of 200",
        "    meanwhile realtime 60 of 100, batch 110 of 200",
        "    in time   realtime 7 of 100, batch 200 of 200",
        "  outcomes    realtime 98 completed, 0 refused, 2 otherwise; "
        "batch 120 completed, 80 refused (shed 70, evicted 10)",
        "  realtime    p95 before -> in the overload: wait 4 -> 150 ms, first token 200 -> - ms",
        "  policies    Retry-After 2 to 14 s; fallback rungs entered: cap, shed",
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"retry_after_s": None}, "no refusal had a Retry-After", id="no refusal"),
        pytest.param({"retry_after_s": (3, 3)}, "Retry-After 3 s;", id="one value"),
        pytest.param({"without": []}, "without Headway: not known", id="engine not measured"),
        pytest.param({"rungs": []}, "fallback rungs entered: none", id="no rung"),
        pytest.param({"capacity_per_s": 0.0}, "more than the 0.0 of the full engine", id="nothing was measured"),
    ],
)
def test_the_report_of_an_overload_says_what_was_not_seen(change: dict[str, object], words: str) -> None:
    """In words, not in empty places."""
    lines = overload_lines(dataclasses.replace(OVERLOAD, **change))  # type: ignore[arg-type] # a table of mixed facts
    assert words in "\n".join(lines)


@pytest.mark.parametrize(("seconds", "shown"), [(None, "-"), (0.0, 0), (0.0126, 13)])
def test_a_delay_that_was_not_observed_is_a_dash(seconds: float | None, shown: object) -> None:
    """None is no delay of 0 ms."""
    assert whole_ms(seconds) == shown
