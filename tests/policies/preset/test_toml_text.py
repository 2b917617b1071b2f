"""The value of a setting as TOML text."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.preset.toml_text import toml_text

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
#: TOML is UTF-8: it has no lone surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SETTINGS = st.booleans() | NUMBERS | TEXTS | st.lists(TEXTS) | st.lists(st.integers())


def read(text: str) -> object:
    """What a TOML parser makes of it."""
    return tomllib.loads(f"key = {text}")["key"]


@given(SETTINGS)
def test_a_parser_reads_the_very_value_back(value: bool | float | str | list[str] | list[int]) -> None:
    """To the last bit and letter; a whole float comes back as a number that is equal to it."""
    back = read(toml_text(value))
    assert back == value
    assert isinstance(back, bool) == isinstance(value, bool)


@given(SETTINGS, SETTINGS)
def test_two_different_values_have_two_different_texts(
    one: bool | float | str | list[str] | list[int], other: bool | float | str | list[str] | list[int]
) -> None:
    """So a table of differences never shows the same text twice."""
    same_kind = isinstance(one, bool) == isinstance(other, bool)
    assert (toml_text(one) == toml_text(other)) <= (one == other and same_kind)


@given(TEXTS)
def test_no_letter_reaches_a_terminal_that_it_would_obey(text: str) -> None:
    """Control characters and marks of direction are escaped."""
    assert toml_text(text).isprintable()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.98, "0.98"), (50.0, "50"), (1e-7, "1e-07"), (True, "true"), ([], "[]"), (["a, b"], '["a, b"]'), ('"', '"\\""')],
)
def test_values_look_as_they_would_in_a_file(value: object, text: str) -> None:
    """The shortest text that is exact."""
    assert toml_text(value) == text  # type: ignore[arg-type]  # a table of settings of every kind
