"""The arithmetic of the capacity; the measurement itself is tested with the overload (``test_phase``)."""

from __future__ import annotations

import pytest

from headway_simulator import EngineModel, Request
from headway_tools.demo.overload.capacity import capacity_per_s, full_per_s
from headway_tools.demo.overload.without import EngineSeen
from headway_tools.load.histogram import Histogram
from headway_tools.load.scrape import Counts
from headway_tools.load.served import COMPLETED, REFUSED, Served

SERVED = [Served("realtime", COMPLETED, 0.1, 10), Served("batch", COMPLETED, 0.1, 30), Served("batch", REFUSED)]


@pytest.mark.parametrize(
    ("added", "served", "completed", "expected"),
    [
        pytest.param(Counts({}, batch_sum=400), SERVED, 1, 4.0, id="tokens of all steps by tokens of an answer"),
        pytest.param(Counts({}), SERVED, 2, 0.4, id="no steps shown: completed requests"),
        pytest.param(Counts({}, batch_sum=400), SERVED[2:], 0, 0.0, id="nothing completed"),
    ],
)
def test_the_capacity_is_in_requests_of_mean_length(
    added: Counts, served: list[Served], completed: int, expected: float
) -> None:
    """In 5 s."""
    assert capacity_per_s(added, 5.0, served, completed) == pytest.approx(expected)


USUAL = [Request(0.0, "normal", 20, 10), Request(0.0, "normal", 40, 30)]  # a mean of 30 and 20 tokens


def test_the_full_engine_runs_all_of_its_sequences() -> None:
    """100 at once: 20 tokens of a hundredth of a step of 130 ms, and 30 prompt tokens of 1 ms, make 56 ms a request."""
    engine = EngineSeen(EngineModel(0.03, 0.001, 0.001, max_num_seqs=100), {})
    assert full_per_s(engine, USUAL, Counts({}), 0) == pytest.approx(1 / 0.056)


def test_the_full_engine_is_as_fast_as_it_was_when_it_was_measured() -> None:
    """Ten sequences a step are fitted at 40 ms, without prompts, and took twice as long: half as many requests."""
    engine = EngineSeen(EngineModel(0.03, 0.001, 0.001, max_num_seqs=100), {})
    slow = Counts({}, batch_sum=1000, batch_steps=100, inter_tokens=Histogram({"+Inf": 900}), inter_token_sum_s=72.0)
    assert full_per_s(engine, USUAL, slow, 0) == pytest.approx(0.5 / 0.056)


def test_an_engine_without_a_step_time_is_what_was_measured() -> None:
    """Nothing is added to it."""
    assert full_per_s(EngineSeen(None, {}), USUAL, Counts({}), 5) == 0.0
