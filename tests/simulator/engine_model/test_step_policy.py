"""The step policy in the engine model: the pace beside long prompts, and that none of them is held for ever."""

from __future__ import annotations

from random import Random
from statistics import mean

import pytest
from engine_family import FAMILY, drawn
from played_engine import ends, played
from tiers import LONG

from headway_policies.step import StepPolicy, StepTerms
from headway_simulator.engine_model.engine import Engine, EngineModel, Sequence, Steps

Reports = list[tuple[float, Steps]]
ENGINES = range(60 if LONG else 4)
AUTO = StepTerms("auto", "2.5x 5..250", {0: "6x 0.3..10"})
LONG_ID = 900


def beside(model: EngineModel, terms: StepTerms | None, prompt_tokens: int, *, every: int = 0) -> tuple[float, Reports]:
    """Eight sequences decode when a long prompt comes; ``every``: with a short one behind it in each so many steps.

    The engine has computed some prompts before, as in a warm-up. When the long one came, and all reports since.
    """
    step_s = model.step_s(8)
    sequences = [(0.0, Sequence(place, 64, 20)) for place in range(4)]
    begins_s = 100 * step_s + 500 * model.prefill_s
    sequences += [(begins_s, Sequence(10 + place, 16, 5000)) for place in range(8)]
    comes_s = begins_s + 80 * step_s
    sequences.append((comes_s, Sequence(LONG_ID, prompt_tokens, 2, sent_s=comes_s)))
    if every:
        for number in range(200):
            at_s = comes_s + every * number * step_s
            sequences.append((at_s, Sequence(1000 + number, 48, 4, sent_s=at_s)))
    engine = Engine(model, None if terms is None else StepPolicy(terms))
    return comes_s, [(at_s, steps) for at_s, steps in played(engine, sequences) if at_s > comes_s]


def first_s(reports: Reports, number: int) -> float:
    """When it had its first token."""
    return next(at_s for at_s, steps in reports for one in steps.first if one.id == number)


@pytest.mark.parametrize("name", FAMILY)
def test_a_cold_prompt_leaves_the_pace_of_those_that_decode(name: str) -> None:
    """Of 32 times the mean: of the next 300 steps one in a hundred takes over twice as long as without it, and the mean
    is within the objective.
    """
    model = FAMILY[name]
    comes_s, reports = beside(model, AUTO, 2048)
    times = [steps.step_s for _, steps in reports for _ in range(steps.count)][:300]
    assert sorted(times)[-1 - len(times) // 100] <= 2 * model.step_s(8)
    assert mean(times) <= 2.5 * model.step_s(1)
    assert first_s(reports, LONG_ID) - comes_s <= 4 * 2048 * model.prefill_s + 2 * model.step_s(8)


@pytest.mark.parametrize("name", FAMILY)
def test_a_prompt_that_nobody_could_bear_at_once_delays_no_step(name: str) -> None:
    """It would take longer than forty steps with one sequence: no step takes over twice as long as without it, and its
    first token comes after at most four times the time that it needs alone.
    """
    model = FAMILY[name]
    tokens = int(40 * model.step_s(1) / model.prefill_s)
    comes_s, reports = beside(model, AUTO, tokens)
    done_s = first_s(reports, LONG_ID)
    assert max(steps.step_s for at_s, steps in reports if at_s <= done_s) <= 2 * model.step_s(8)
    assert done_s - comes_s <= 4 * tokens * model.prefill_s + 2 * model.step_s(8)


@pytest.mark.parametrize("seed", ENGINES)
@pytest.mark.parametrize("share", ["auto", 0.1, 0.5])
def test_no_prompt_is_held_for_ever(seed: int, share: float | str) -> None:
    """On any engine, whatever comes after it: within twice the time that its share of each step takes, and one step."""
    model, random = drawn(seed), Random(seed)
    terms = StepTerms(share, random.choice(("1.5x", "2.5x", "10x", 40.0)), {0: random.choice(("3x", 1.0, 30.0))})  # type: ignore[arg-type]
    tokens = min(random.randint(300, 3000), model.kv_tokens // 4)
    comes_s, reports = beside(model, terms, tokens, every=random.choice((0, 1, 3, 9)))
    least = 0.25 if share == "auto" else float(share)
    within_s = 2 / least * tokens * model.prefill_s + 2 * model.step_s(8, 2048)
    assert first_s(reports, LONG_ID) - comes_s <= 1.1 * within_s


@pytest.mark.parametrize("seed", ENGINES)
def test_every_sequence_ends_in_little_kv_space(seed: int) -> None:
    """Preempted again and again, under a policy that takes several steps for each prompt."""
    random = Random(seed)
    model = EngineModel(kv_tokens=1600, step_tokens=256)
    arrivals = sorted(
        (random.uniform(0, 20), Sequence(number, random.randint(1, 900), random.randint(1, 500)))
        for number in range(60)
    )
    policy = StepPolicy(AUTO)
    assert len(ends(played(Engine(model, policy), arrivals))) == 60
    assert policy.figures.steps


def test_without_terms_the_engine_does_as_without_a_policy() -> None:
    """The policy learns, and changes nothing."""
    model = FAMILY["two cores"]
    _, plain = beside(model, None, 2048, every=3)
    arrivals = [(0.0, Sequence(1, 64, 30)), (0.5, Sequence(2, 2048, 5))]
    again = [(0.0, Sequence(1, 64, 30)), (0.5, Sequence(2, 2048, 5))]
    assert ends(played(Engine(model, StepPolicy(None)), arrivals)) == ends(played(Engine(model), again))
    assert max(steps.prefill_tokens for _, steps in plain) > 1000
