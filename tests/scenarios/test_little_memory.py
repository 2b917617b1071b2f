"""The default preset on engines whose KV cache, and not their speed, bounds what runs: beside the same engine alone.

A preemption costs them little, since a prompt takes less than a step. With a part of the cache kept free for the
chance of one, and a fall of the limit for each, requests waited for seconds that the engine alone serves at once.
"""

from __future__ import annotations

import pytest
from engine_family import drawn
from engine_judge import Judge

from headway_policies import bundled_presets

SLACK = 0.05  # of short runs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "workload"), [(69, "W8"), (3083, "W1")], ids=["chat and long prompts in 31k tokens", "chat in 9k tokens"]
)
def test_where_preemptions_are_cheap_the_memory_is_used(seed: int, workload: str) -> None:
    """Goodput, first tokens and the order of the classes are those of the engine alone, at half of its ceiling."""
    assert Judge(drawn(seed), 400).cell(bundled_presets()["balanced"], workload, 0.5, (1,)).missed(SLACK) == []
