"""The diagnosis of answers that long prompts slow down, by whether the step policy is on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from diagnosed_facts import SLOW, WELL

from headway_policies.diagnosis import Bottleneck, diagnose

#: Tokens every 100 ms, and 75 ms is the objective.
FACTS = replace(WELL, classes=SLOW, longest_prompt_s=0.05)


@pytest.mark.parametrize("longest_s", [0.05, 1.9])
@pytest.mark.parametrize("limited", [Bottleneck.LONG_STEPS, Bottleneck.ENGINE_SPEED])
def test_prompts_that_the_step_policy_lets_take_too_much_are_named(limited: Bottleneck, longest_s: float) -> None:
    """Also where they are spread over the steps; with the setting that bounds them first among the remedies."""
    facts = replace(FACTS, shapes_steps=True, prompt_share=0.4, longest_prompt_s=longest_s)
    if limited is Bottleneck.ENGINE_SPEED:
        facts = replace(facts, seats_taken=facts.limit, queued=4)
    found = diagnose(facts)
    assert found.bottleneck is limited
    assert "Decode is slowed by long prompts: they take 40 % of the engine's time" in found.sentence
    assert "a smaller number as `[step] prefill_share` bounds them more." in found.sentence
    assert found.remedies[0].action.startswith("a smaller share of the steps for prompts: [step] prefill_share")


@pytest.mark.parametrize(("share", "shapes_steps"), [(0.24, True), (0.26, False), (0.26, None)])
def test_prompts_without_which_tokens_would_be_as_late_are_not(share: float, shapes_steps: bool | None) -> None:
    """Sequences alone make the steps too long; without the step policy a prompt in one step has to be longer."""
    found = diagnose(replace(FACTS, shapes_steps=shapes_steps, prompt_share=share))
    assert found.statement.startswith("Too many requests run at once for their objective")
    assert "slowed by" not in found.sentence
    assert not any("prefill_share" in remedy.action for remedy in found.remedies)
