"""The objectives of a class in seconds, on an engine."""

from __future__ import annotations

import pytest
from small_presets import small_preset, terms

from headway_policies import Desk
from headway_policies.limits import EngineFit, Resolved, resolved
from headway_policies.limits.fit.engine_fit import Unloaded

#: 20 ms a token, a millisecond for each prompt token: 0.12 s to the first token of a prompt of 100.
ENGINE = Unloaded(token_s=0.02, prefill_token_s=0.001)
RELATIVE = terms(1, ttft_slo_s="5x 0.3..10", inter_token_slo_ms="2.5x 5..250")


def test_relative_objectives_follow_the_unloaded_times() -> None:
    """5 times 0.12 s, and 2.5 times 20 ms."""
    found = resolved(RELATIVE, ENGINE, 100, 100)
    assert found == Resolved(pytest.approx(0.6), pytest.approx(0.05), relative=True)


@pytest.mark.parametrize(("prompt_tokens", "ttft_s"), [(0, 0.6), (100, 0.6), (1100, 1.6)])
def test_a_longer_prompt_gets_its_own_extra_time_and_the_same_wait(prompt_tokens: float, ttft_s: float) -> None:
    """Not five times its time: it would outlast all others in the queue. A shorter one has the wait of a usual one."""
    assert resolved(RELATIVE, ENGINE, prompt_tokens, 100).ttft_s == pytest.approx(ttft_s)


def test_before_the_engine_is_known_only_numbers_are() -> None:
    """A relative objective is not known; nothing is said to be missed."""
    assert resolved(RELATIVE, None, 100, 100) == Resolved(None, None, relative=True)
    stated = terms(1, ttft_slo_s=2.0, inter_token_slo_ms=100.0)
    assert resolved(stated, None, 100, 100) == Resolved(2.0, 0.1, relative=False)
    assert resolved(terms(1), None, 100, 100) == Resolved(None, None, relative=False)


@pytest.mark.parametrize(
    ("objective", "kept"),
    [
        ({"ttft_slo_s": 0.1}, False),
        ({"ttft_slo_s": 0.2}, True),
        ({"inter_token_slo_ms": 19.0}, False),
        ({"inter_token_slo_ms": 21.0}, True),
        ({"ttft_slo_s": "5x ..0.1"}, False),
        ({}, True),
    ],
)
def test_an_objective_that_the_engine_misses_for_one_alone_is_told(
    objective: dict[str, float | str], kept: bool
) -> None:
    """Whether it is a number, or bounded below what the engine needs."""
    assert resolved(terms(1, **objective), ENGINE, 100, 100).kept_alone is kept


def test_a_desk_resolves_its_objectives_by_the_fit_of_its_engine() -> None:
    """None before there is one; then by the costs that another process had learnt."""
    desk = Desk(small_preset(2, classes={"normal": RELATIVE}))
    assert desk.objectives("normal").ttft_s is None
    desk.engine_fit.recall(
        {"base_s": 0.019, "sequence_s": 0.001, "prefill_token_s": 0.001, "prefill_tokens_per_sequence": 0}
    )
    found = desk.objectives("normal", 50)
    assert desk.read(0.0).usual_prompt_tokens == 0
    assert (found.ttft_s, found.inter_token_s) == (pytest.approx(0.3 + 0.05), pytest.approx(0.05))
    assert isinstance(desk.engine_fit, EngineFit)
