"""Tests of the benchmarks' presets: a key that is renamed in the policies must not stop them unnoticed."""

from __future__ import annotations

import pytest
from limits import adaptive_arm, memory_aware_arm


@pytest.mark.parametrize("policy", ["aimd", "sla", "model"])
def test_the_adaptive_presets_are_valid(policy: str) -> None:
    """Each limit policy can be compared in G3."""
    assert adaptive_arm(policy).limit.policy == policy


def test_the_memory_aware_preset_is_valid() -> None:
    """The one of G6."""
    assert memory_aware_arm().limit.memory_aware
