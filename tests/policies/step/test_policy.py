"""The step policy against hand-made sums."""

from __future__ import annotations

import pytest

from headway_policies import PriorityClass
from headway_policies.step import Plan, Prompt, StepPolicy, StepSettings, StepTerms

BASE_S, SEQUENCE_S, TOKEN_S = 0.020, 0.001, 0.0005
URGENT, USUAL = 0, 1
AUTO = StepTerms("auto", 100.0, {})


def learnt(terms: StepTerms | None) -> StepPolicy:
    """A policy that has seen an engine with these costs."""
    policy = StepPolicy(terms)
    for number in range(400):
        decoding, tokens = 1 + number % 10, 96 * (number % 3)
        policy.learn(decoding, tokens, BASE_S + SEQUENCE_S * decoding + TOKEN_S * tokens)
    return policy


def spent(terms: StepTerms) -> StepPolicy:
    """One whose steps have saved nothing: the last was a pause."""
    policy = learnt(terms)
    policy.learn(8, 0, 100.0)
    return policy


def tokens_in(step_s: float, decoding: int) -> float:
    """The prompt tokens with which a step takes so long."""
    return (step_s - BASE_S - SEQUENCE_S * decoding) / TOKEN_S


def planned(policy: StepPolicy, decoding: int, *line: Prompt) -> Plan:
    """The plan, which there has to be."""
    plan = policy.plan(decoding, line)
    assert plan is not None
    return plan


def test_a_share_of_its_own_is_that_of_the_steps_time() -> None:
    """At 0.4 a step with eight sequences takes 28 / 0.6 ms, whatever the objectives are."""
    plan = planned(learnt(StepTerms(0.4, 1.0, {})), 8, Prompt(2000, 2000, USUAL, 0.0))
    assert plan.prompt_tokens == pytest.approx(tokens_in(0.028 / 0.6, 8), rel=0.03)
    assert plan.chunk_tokens == plan.prompt_tokens


def test_calm_steps_take_less_than_twice_as_long_as_without_prompts() -> None:
    """Although the objective would allow three times."""
    plan = planned(learnt(AUTO), 8, Prompt(4000, 4000, USUAL, 0.0))
    assert plan.prompt_tokens == pytest.approx(tokens_in(1.9 * 0.028, 8), rel=0.03)


def test_a_step_takes_no_longer_than_the_objective_between_tokens() -> None:
    """Nine tenths of 50 ms, where 1.9 times 28 would be more."""
    plan = planned(learnt(StepTerms("auto", 50.0, {})), 8, Prompt(2000, 2000, USUAL, 0.0))
    assert plan.prompt_tokens == pytest.approx(tokens_in(0.045, 8), rel=0.03)


def test_prompts_keep_a_quarter_where_the_objective_leaves_nothing() -> None:
    """Sequences that are too many for their objective do not stop the prompts."""
    plan = planned(learnt(StepTerms("auto", 10.0, {})), 8, Prompt(2000, 2000, USUAL, 0.0))
    assert plan.prompt_tokens == pytest.approx(tokens_in(0.028 / 0.75, 8), abs=1)


def test_a_prompt_that_would_be_late_gets_the_share_that_it_needs() -> None:
    """A second of prompt beside calm steps takes 2.1 s: in time for eight tenths of 6 s, but no more when 3 s of them
    are over. Then it needs a share of 1 / 1.8.
    """
    policy = spent(StepTerms("auto", 100.0, {USUAL: 6.0}))
    calm = planned(policy, 8, Prompt(2000, 2000, USUAL, 0.0))
    assert calm.prompt_tokens == pytest.approx(tokens_in(1.9 * 0.028, 8), rel=0.03)
    assert policy.figures.pressed == 0
    pressed = planned(policy, 8, Prompt(2000, 2000, USUAL, 3.0))
    assert pressed.prompt_tokens == pytest.approx(tokens_in(0.028 * 1.8 / 0.8, 8), rel=0.03)
    assert policy.figures.pressed == 1


def test_what_earlier_steps_saved_goes_to_a_pressed_prompt() -> None:
    """A sequence that has had its tokens early can wait for one, and its mean stays within the objective: 1.5 s of
    prompt in 1.8 s take steps far longer than an aim of 72 ms.
    """
    terms, late = StepTerms("auto", 80.0, {USUAL: 6.0}), Prompt(3000, 3000, USUAL, 3.0)
    saved = learnt(terms)
    saved.learn(8, 0, BASE_S + 8 * SEQUENCE_S, steps=64)
    assert planned(saved, 8, late).prompt_tokens == pytest.approx(tokens_in(0.028 * 1.8 / 0.3, 8), rel=0.03)
    assert spent(terms).plan(8, (late,)) is None


@pytest.mark.parametrize("waited_s", [0.0, 1.0, 10.0])
def test_a_prompt_that_no_share_would_have_in_time_takes_the_pace_of_nobody(waited_s: float) -> None:
    """Four seconds of prompt within eight tenths of 6.4 s would need 0.78 of the time from the first step on, and a
    step of 90 ms leaves it 0.69: it is computed in calm steps, not in one.
    """
    for policy in (learnt, spent):
        plan = planned(policy(StepTerms("auto", 100.0, {USUAL: 6.4})), 8, Prompt(8000, 8000, USUAL, waited_s))
        assert plan.prompt_tokens == pytest.approx(tokens_in(1.9 * 0.028, 8), rel=0.03)


def test_a_class_without_an_objective_for_the_first_token_presses_nobody() -> None:
    """Also after an hour."""
    policy = learnt(StepTerms("auto", 100.0, {URGENT: 1.0}))
    assert planned(policy, 8, Prompt(4000, 4000, USUAL, 3600.0)).prompt_tokens < tokens_in(0.06, 8)


def test_relative_objectives_are_those_of_the_engine() -> None:
    """Nine tenths of 1.6 times what one sequence takes between tokens, and six times what the prompt takes alone."""
    calm = planned(learnt(StepTerms("auto", "1.6x", {})), 8, Prompt(2000, 2000, USUAL, 0.0))
    assert calm.prompt_tokens == pytest.approx(tokens_in(max(0.9 * 1.6 * 0.021, 0.028 / 0.75), 8), abs=1)
    in_time_s = 0.8 * 6 * (BASE_S + SEQUENCE_S + 2000 * TOKEN_S)
    pressed = planned(learnt(StepTerms("auto", "3x", {USUAL: "6x"})), 8, Prompt(2000, 1000, USUAL, in_time_s - 0.8))
    assert pressed.prompt_tokens == pytest.approx(tokens_in(0.028 * 8 / 3, 8), rel=0.05)


def test_short_prompts_are_computed_whole() -> None:
    """Within four times the aim of 90 ms, also where the steps so far have spared nothing: 328 ms, with another behind
    it as far as 360 ms go.
    """
    first, next_one = Prompt(600, 600, USUAL, 0.0), Prompt(500, 500, USUAL, 0.0)
    for line in ((first,), (first, next_one)):
        plan = planned(spent(AUTO), 8, *line)
        assert plan.prompt_tokens == plan.chunk_tokens == pytest.approx(tokens_in(0.36, 8), rel=0.03)
        assert (plan.held_s > 0) == (len(line) > 1)
    assert planned(spent(AUTO), 8, first).share == pytest.approx(0.3 / 0.328, rel=0.03)
    assert planned(spent(AUTO), 8, Prompt(700, 100, USUAL, 0.0)).prompt_tokens < tokens_in(0.06, 8)


def test_a_longer_prompt_is_computed_whole_where_earlier_steps_pay_for_it() -> None:
    """328 ms are nine times the aim of 36 ms; over seventeen times, more than is ever spared, are not taken at once."""
    terms = StepTerms("auto", 40.0, {})
    prompt, longer = Prompt(600, 600, USUAL, 0.0), Prompt(1300, 1300, USUAL, 0.0)
    saved = learnt(terms)
    saved.learn(8, 0, BASE_S + 8 * SEQUENCE_S, steps=64)
    assert planned(saved, 8, prompt).prompt_tokens >= 600
    assert planned(spent(terms), 8, prompt).prompt_tokens < tokens_in(0.04, 8)
    assert planned(saved, 8, longer).prompt_tokens < tokens_in(0.04, 8)


def test_a_long_prompt_leaves_half_to_a_short_one_behind_it() -> None:
    """Not to one of about its length, which would only make both late."""
    policy, long = learnt(AUTO), Prompt(4000, 4000, USUAL, 1.0)
    plan = planned(policy, 8, long, Prompt(64, 64, USUAL, 0.0))
    assert plan.chunk_tokens == -(-plan.prompt_tokens // 2)
    alike = planned(policy, 8, long, Prompt(3000, 3000, USUAL, 0.0))
    assert alike.chunk_tokens == alike.prompt_tokens


@pytest.mark.parametrize(("decoding", "line"), [(0, (Prompt(2000, 2000, USUAL, 0.0),)), (8, ())])
def test_where_nothing_decodes_or_waits_the_engine_chooses(decoding: int, line: tuple[Prompt, ...]) -> None:
    """There is nobody to spare."""
    assert learnt(AUTO).plan(decoding, line) is None


def test_until_prompts_have_been_measured_steps_grow_from_few_tokens() -> None:
    """To four times what was measured, whatever that says of longer ones."""
    policy, line = StepPolicy(AUTO), (Prompt(2000, 2000, USUAL, 0.0),)
    for _ in range(100):
        policy.learn(4, 0, 0.024)
    assert planned(policy, 4, *line)[:2] == (64, 64)
    for _ in range(20):
        policy.learn(4, 2, 0.024)
    assert planned(policy, 4, *line).prompt_tokens <= 64
    policy.learn(4, 20, 0.024)
    assert planned(policy, 4, *line).prompt_tokens <= 80


def test_after_a_lack_of_blocks_the_engine_chooses_for_a_while() -> None:
    """A prompt that is computed slowly holds its blocks for longer."""
    policy, line = learnt(AUTO), (Prompt(2000, 2000, USUAL, 0.0),)
    policy.preempted(1)
    policy.preempted(0)
    plans = [policy.plan(8, line) for _ in range(257)]
    assert plans[:256] == [None] * 256
    assert plans[256] is not None


def test_growing_contexts_are_no_slower_engine() -> None:
    """The time of a token alone, which relative objectives are multiples of, stays within a third of what it was, where
    attention takes twice as long as all else when the KV cache is full; by the steps' times alone it would double.
    """
    alone_s = BASE_S + SEQUENCE_S
    paces = []
    for known in (1.0, 0.0):
        policy = learnt(AUTO)
        for number in range(400):
            usage = number / 400
            policy.learn(8, 0, BASE_S + 8 * SEQUENCE_S + 0.056 * usage, known * usage)
        paces.append(policy._profile.token_s / alone_s)
    assert paces[0] < 4 / 3
    assert paces[1] > 2


def test_without_terms_it_learns_and_plans_nothing() -> None:
    """Terms that come later find the costs known."""
    policy, line = learnt(None), (Prompt(2000, 2000, USUAL, 0.0),)
    assert policy.plan(8, line) is None
    policy.terms = AUTO
    assert policy.plan(8, line) is not None


def test_the_share_that_came_of_it_is_reported() -> None:
    """By what the costs give to the prompt tokens of planned steps."""
    policy = learnt(StepTerms(0.4, None, {}))
    for _ in range(50):
        plan = planned(policy, 8, Prompt(2000, 2000, USUAL, 3.0))
        tokens = plan.prompt_tokens
        policy.learn(8, tokens, BASE_S + 8 * SEQUENCE_S + TOKEN_S * tokens, plan=plan)
    figures = policy.figures
    assert figures.prefill_share == pytest.approx(0.4, abs=0.03)
    assert figures.target_share == pytest.approx(0.4)
    assert (figures.steps, figures.held, figures.held_s) == (50, 50, 3.0)
    assert (figures.decode_tokens, figures.budget_tokens) == (400, 400 + figures.prompt_tokens)


def terms(**settings: object) -> PriorityClass:
    """A class with these objectives."""
    return PriorityClass.model_validate({"priority": 1, "max_waiting": 1, **settings})


def test_terms_are_made_of_the_preset_and_sent_as_a_message() -> None:
    """The shortest objective between tokens, and each class's own for the first token."""
    classes = {0: terms(ttft_slo_s="6x", inter_token_slo_ms=80), 1: terms(inter_token_slo_ms=50), 2: terms()}
    made = StepTerms.of(StepSettings(prefill_share="auto"), classes)
    assert made == StepTerms("auto", 50.0, {0: "6x"})
    assert StepTerms.read(made.plain()) == made


@pytest.mark.parametrize(("share", "objective"), [("off", 50), ("auto", None)])
def test_there_are_no_terms_where_nothing_is_to_be_kept(share: str, objective: int | None) -> None:
    """Switched off, or without an objective between tokens."""
    assert (
        StepTerms.of(StepSettings.model_validate({"prefill_share": share}), {0: terms(inter_token_slo_ms=objective)})
        is None
    )


@pytest.mark.parametrize("share", [0.5, "auto"])
def test_a_fit_that_charges_prompts_with_all_of_a_step_plans_nothing(share: float | str) -> None:
    """Two steps of an engine whose long prompts cost more a token leave nothing for the sequences."""
    policy = StepPolicy(StepTerms(share, 50.0, {0: 0.3}))
    for decoding, tokens in ((0, 8192), (8, 512)):
        policy.learn(decoding, tokens, 0.01 + 0.0001 * max(decoding, 1) + 0.00005 * tokens * (1 + tokens / 8192))
    assert policy.plan(1, [Prompt(40_000, 40_000, 0, 0.1)]) is None
