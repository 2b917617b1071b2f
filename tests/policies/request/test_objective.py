"""Objectives that are numbers, or multiples of what the engine needs for one request alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies import PresetError, parse_preset
from headway_policies.request import Relative, least_of, relative, resolve, shortest

BASE = 'name = "mine"\nextends = "balanced"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.5x", Relative(2.5)),
        ("2.5x 5..250", Relative(2.5, 5.0, 250.0)),
        ("8x 0.3..", Relative(8.0, 0.3)),
        ("8x ..10", Relative(8.0, 0.0, 10.0)),
        ("10000x", Relative(10_000.0)),
    ],
)
def test_a_multiple_is_read_with_its_bounds(text: str, expected: Relative) -> None:
    """Either bound may be left out."""
    assert relative(text) == expected


@pytest.mark.parametrize(
    ("text", "unloaded", "value"),
    [
        ("2.5x 5..250", 10.0, 25.0),
        ("2.5x 5..250", 1.0, 5.0),
        ("2.5x 5..250", 1000.0, 250.0),
        ("2.5x", 1000.0, 2500.0),
        (75.0, 1000.0, 75.0),
    ],
)
def test_an_objective_follows_the_engine_within_its_bounds(text: float | str, unloaded: float, value: float) -> None:
    """In the unit of the unloaded figure; a number follows nothing."""
    assert resolve(text, unloaded) == value


def test_the_shortest_that_an_objective_can_be() -> None:
    """Its lower bound; a number is always the same."""
    assert [least_of(one) for one in ("2x 5..9", "2x", 75.0, None)] == [5.0, 0.0, 75.0, None]


WRONG = ["", "x", "2.5", "2,5x", "-1x", "0x", "10001x", "2x 5", "2x 9..5", "2x 5..5", "1e3x", "٢x", f"{'9' * 70}x"]


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize("key", ["classes.normal.ttft_slo_s", "classes.normal.inter_token_slo_ms"])
def test_a_wrong_multiple_is_refused_in_one_line_that_names_its_key(key: str, text: str) -> None:
    """The author of the file reads which key, and what may stand there."""
    with pytest.raises(PresetError, match=key) as caught:
        parse_preset(f'{BASE}{key} = "{text}"', "mine.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("classes.normal.ttft_slo_s", '"2x 5..86401"', "bounds must be at most 86400"),
        ("classes.normal.inter_token_slo_ms", '"2x 60001.."', "bounds must be at most 60000"),
        ("limit.inter_token_slo_ms", "60001", "above 0 and at most 60000"),
        ("limit.inter_token_slo_ms", "true", "above 0 and at most 60000"),
        ("classes.normal.ttft_slo_s", "0", "above 0 and at most 86400"),
        ("classes.normal.ttft_slo_s", "nan", "above 0 and at most 86400"),
        ("classes.normal.ttft_slo_s", "[1]", "above 0 and at most 86400"),
    ],
)
def test_an_objective_out_of_bounds_is_refused_in_one_line(key: str, value: str, words: str) -> None:
    """With its key, and what is allowed."""
    with pytest.raises(PresetError, match=key) as caught:
        parse_preset(f"{BASE}{key} = {value}", "mine.toml")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


NUMBERS = st.floats(0.01, 1000).map(lambda number: round(number, 2))


@st.composite
def multiples(draw: st.DrawFn) -> str:
    """Any relative objective."""
    least, more = draw(st.none() | NUMBERS), draw(st.none() | NUMBERS)
    most = None if more is None else round((least or 0.0) + more, 2)
    bounds = (
        "" if least is None and most is None else f" {'' if least is None else least}..{'' if most is None else most}"
    )
    return f"{draw(NUMBERS)}x{bounds}"


@given(st.lists(NUMBERS | multiples(), min_size=1, max_size=5), st.floats(0.001, 10_000))
def test_the_shortest_is_never_longer_than_any(objectives: list[float | str], unloaded: float) -> None:
    """On no engine; and a preset can state it."""
    found = shortest(objectives)
    assert found is not None
    if isinstance(found, str):
        relative(found)
    assert resolve(found, unloaded) <= min(resolve(one, unloaded) for one in objectives) * (1 + 1e-5)


def test_a_tiny_multiple_is_still_one() -> None:
    """Written without an exponent, and with all of its digits."""
    assert shortest(["0.00005x", "1x"]) == "0.00005x"
    assert shortest(["2x 1.2345678..5"]) == "2x 1.2345678..5"


def test_what_is_no_objective_is_left_out_of_the_shortest() -> None:
    """Another validation refuses it, with its key."""
    assert shortest([None, True, "often", 30]) == 30
    assert shortest([None, "often"]) is None
    assert shortest([]) is None
