"""The fit of the step time: accuracy and bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.limits.fit.step_time import StepTime, StepTimeFit

CPU = StepTime(base_s=0.029, sequence_s=0.00106, prefill_token_s=0.0007)
GPU = StepTime(base_s=0.0063, sequence_s=0.00002, prefill_token_s=0.00001)
LOADS = [(running, prefill) for running in (1, 8, 32, 64) for prefill in (0, 64, 512)]

numbers = st.floats(0, 1e6)
samples = st.lists(st.tuples(numbers, numbers, st.floats(-1, 1e6) | st.sampled_from([float("nan"), float("inf")])))


def solved(fit: StepTimeFit, times: int) -> StepTime:
    """Each solution is one step towards the best fit."""
    for _ in range(times - 1):
        fit.solve()
    return fit.solve()


def test_a_step_costs_its_base_its_sequences_and_its_prompt_tokens() -> None:
    """29 ms + 16 x 1.06 ms + 64 x 0.7 ms."""
    assert CPU.step_s(16, 64) == pytest.approx(0.09076)


@pytest.mark.parametrize("true", [CPU, GPU], ids=["cpu", "gpu"])
def test_the_fit_finds_the_costs_that_made_the_samples(true: StepTime) -> None:
    """Samples without noise that differ in both loads give back all three costs."""
    fit = StepTimeFit()
    for running, prefill in LOADS:
        fit.add(running, prefill, true.step_s(running, prefill))
    found = solved(fit, 300)
    assert found.base_s == pytest.approx(true.base_s, rel=1e-3)
    assert found.sequence_s == pytest.approx(true.sequence_s, rel=1e-3)
    assert found.prefill_token_s == pytest.approx(true.prefill_token_s, rel=1e-3)


def test_without_samples_nothing_is_known() -> None:
    """No sample: all costs are 0."""
    assert StepTimeFit().solve() == StepTime(0, 0, 0)


def test_a_load_that_rounds_to_nothing_is_no_error() -> None:
    """Its square is the least number there is, and leaves no equation for its cost."""
    fit = StepTimeFit()
    fit.add(1, 2e-162, 1)
    assert fit.solve().prefill_token_s == 0


def test_one_load_alone_is_predicted_right() -> None:
    """Costs that cannot be separated (base, sequences) still add up at the load that was seen."""
    fit = StepTimeFit()
    for _ in range(50):
        fit.add(16, 0, 0.046)
    assert fit.solve().step_s(16, 0) == pytest.approx(0.046)


def test_a_few_samples_tell_the_base_from_the_sequences() -> None:
    """As they come from a server at work: 9 to 13 running, with more or fewer prompts in each interval."""
    fit = StepTimeFit(forgetting=0.98)
    for running, prefill in ((9, 0), (10, 24), (12, 8), (11, 40), (13, 16), (10, 4), (12, 30), (11, 12), (9, 20)):
        fit.add(running, prefill, CPU.step_s(running, prefill))
        found = fit.solve()
    assert found.base_s == pytest.approx(CPU.base_s, rel=0.2)
    assert found.step_s(24, 24) == pytest.approx(CPU.step_s(24, 24), rel=0.1)


def test_old_samples_fade() -> None:
    """After many samples of a slower engine the fit is that engine's."""
    fit = StepTimeFit(forgetting=0.9)
    for slowness in (1, 2):
        for running, prefill in LOADS * 20:
            fit.add(running, prefill, slowness * CPU.step_s(running, prefill))
    assert solved(fit, 100).step_s(24, 24) == pytest.approx(2 * CPU.step_s(24, 24), rel=0.01)


def test_a_change_of_speed_scales_all_that_was_learnt() -> None:
    """Scaling keeps the shape: every prediction is multiplied, and stays so when solved again."""
    fit = StepTimeFit()
    for running, prefill in LOADS:
        fit.add(running, prefill, CPU.step_s(running, prefill))
    before = solved(fit, 300)
    fit.scale(1.5)
    assert fit.solve().step_s(20, 100) == pytest.approx(1.5 * before.step_s(20, 100))


@given(samples)
def test_no_samples_make_a_cost_negative_or_infinite(given_samples: list[tuple[float, float, float]]) -> None:
    """Whatever is measured, costs are finite and at least 0; what is no time is not counted."""
    fit = StepTimeFit(forgetting=0.9)
    for sample in given_samples:
        fit.add(*sample)
        found = fit.solve()
        for cost_s in (found.base_s, found.sequence_s, found.prefill_token_s):
            assert 0 <= cost_s < float("inf")
    assert fit.samples == sum(0 < step_s < float("inf") for _, _, step_s in given_samples)
