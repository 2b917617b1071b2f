"""What a preset asks of the engine, in numbers and in words."""

from __future__ import annotations

from typing import Any

import pytest
from small_presets import small_preset

from headway.operator import follows_engine, reach, stated_seats
from headway_policies.limits import LimitSettings

LIMITS: list[tuple[dict[str, Any], int, bool, str]] = [
    ({}, 8, False, "8 seats, fixed"),
    ({"memory_aware": True}, 8, False, "8 seats, fewer where KV space is short"),
    ({"policy": "aimd", "shadow": True}, 8, False, "8 seats, fixed; what aimd would allow is only shown"),
    ({"policy": "aimd", "max_seats": 24}, 24, False, "starts at 8 seats, at most 24"),
    ({"policy": "aimd"}, 8, True, "starts at 8 seats, follows the engine up to its --max-num-seqs"),
]


@pytest.mark.parametrize(
    ("limit", "stated", "follows", "words"), LIMITS, ids=["fixed", "memory", "shadow", "a top", "no top"]
)
def test_a_limit_without_a_top_follows_the_engine(
    limit: dict[str, Any], stated: int, follows: bool, words: str
) -> None:
    """Every other one has a number of its own, whatever the engine has."""
    preset = small_preset(8).model_copy(update={"limit": LimitSettings(**limit)})
    assert (stated_seats(preset), follows_engine(preset), reach(preset)) == (stated, follows, words)


def test_the_ceiling_is_named_where_it_is_known() -> None:
    """By its number; one seat is one."""
    preset = small_preset(1).model_copy(update={"limit": LimitSettings(policy="aimd")})
    assert reach(preset, "128") == "starts at 1 seat, follows the engine up to 128"
