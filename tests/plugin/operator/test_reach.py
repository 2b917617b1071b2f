"""What a preset asks of the engine, in numbers; the words are those of ``seat_words``."""

from __future__ import annotations

from typing import Any

import pytest
from small_presets import small_preset

from headway.operator import follows_engine, stated_seats
from headway_policies.limits import LimitSettings
from headway_policies.preset import seat_words

LIMITS: list[tuple[dict[str, Any], int, bool, str]] = [
    ({}, 8, False, "fixed at 8"),
    ({"memory_aware": True}, 8, False, "fixed at 8, fewer while memory is short"),
    ({"policy": "aimd", "shadow": True}, 8, False, "fixed at 8; aimd only shows its proposal"),
    ({"policy": "aimd", "max_seats": 24}, 24, False, "starts at 8, up to 24"),
    ({"policy": "aimd"}, 8, True, "starts at 8, up to the engine's ceiling"),
]


@pytest.mark.parametrize(
    ("limit", "stated", "follows", "words"), LIMITS, ids=["fixed", "memory", "shadow", "a top", "no top"]
)
def test_a_limit_without_a_top_follows_the_engine(
    limit: dict[str, Any], stated: int, follows: bool, words: str
) -> None:
    """Every other one has a number of its own, whatever the engine has."""
    preset = small_preset(8).model_copy(update={"limit": LimitSettings(**limit)})
    assert (stated_seats(preset), follows_engine(preset)) == (stated, follows)
    assert seat_words(preset.settings()) == words


def test_the_ceiling_is_named_where_it_is_known() -> None:
    """By its number."""
    preset = small_preset(1).model_copy(update={"limit": LimitSettings(policy="aimd")})
    assert seat_words(preset.settings(), 128) == "starts at 1, up to the engine's 128"
