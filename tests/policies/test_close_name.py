"""The question after an unknown name, and the error that it ends."""

from __future__ import annotations

import pytest

from headway_policies.close_name import did_you_mean, no_such

CLASSES = ("realtime", "normal", "batch")


@pytest.mark.parametrize(
    ("name", "found"),
    [("realtme", "realtime"), ("NORMAL", "normal"), ("gold", None), ("", None), ("x" * 5_000_000, None)],
    ids=["misspelt", "capitals", "another word", "empty", "very long"],
)
def test_the_closest_known_name_is_asked_for(name: str, found: str | None) -> None:
    """Nothing is asked where none is close, and a long name costs no more than a short one."""
    assert did_you_mean(name, CLASSES) == ("" if found is None else f"; did you mean {found}?")


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    """Of the name the beginning only."""
    error = "there is no class 'bach'; the classes are: realtime, normal, batch; did you mean batch?"
    assert no_such("class", "bach", CLASSES) == error
    assert no_such("preset", "x" * 99, ["a"]) == f"there is no preset '{'x' * 40}'; the presets are: a"
