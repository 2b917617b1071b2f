"""The line of a TOML text on which a key is set."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.preset.toml_line import toml_line

TEXT = '''name = "seats"
text = """
batching.seats = 1
"""
# batching.seats = 2
[batching]
"seats" = [
  8,
  16,
]
window = { length_s = 3, kind = "x" }
[classes.a.b]
seats = 1
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (["name"], 1),
        (["text"], 2),
        (["batching"], 6),
        (["batching", "seats"], 7),
        (["batching", "seats", "1"], 7),
        (["batching", "window", "kind"], 11),
        (["classes", "a", "b", "seats"], 13),
        (["classes", "a"], 12),
        (["classes", "seats"], None),
        (["nowhere"], None),
        ([""], None),
        ([], None),
    ],
)
def test_the_line_is_that_of_the_key(path: list[str], line: int | None) -> None:
    """Text, comments and tables that only look like it are passed over; a key that is not set has no line."""
    assert toml_line(TEXT, path) == line


@given(st.text(st.sampled_from('ab.=[]"#\n 1')), st.lists(st.sampled_from(["a", "b", "1", ""]), max_size=3))
def test_any_text_has_an_answer_that_is_true(text: str, path: list[str]) -> None:
    """None, or a line up to which the text does not set the key."""
    line = toml_line(text, path)
    if line is not None:
        before: object = tomllib.loads("\n".join(text.splitlines()[: line - 1]))
        for key in path:
            before = before.get(key) if isinstance(before, dict) else None
        assert before is None


def test_a_contrived_text_is_read_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many lines hold the word."""
    readings = []

    def loads(text: str) -> dict[str, object]:
        readings.append(text)
        return {}

    monkeypatch.setattr(tomllib, "loads", loads)
    for lines, most in ((100, 25), (5000, 25), (10_000, 0)):
        readings.clear()
        assert toml_line("seats\n" * lines, ["seats"]) is None
        assert len(readings) <= most
