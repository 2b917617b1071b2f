"""Answers of any version: known parts are kept, the rest gets its default."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from headway.api import routes, schema
from headway.api.lenient import read_leniently

ANSWERS = [route.answer for route in routes.TABLE if route.answer not in (None, schema.DeskDump)]
KEYS = sorted({name for answer in ANSWERS if answer is not None for name in answer.model_fields})
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
@given(body=values)
def test_anything_is_read_as_a_whole_model(answer: type[BaseModel], body: object) -> None:
    """Every field has a value of its own type: the model can be written and read again."""
    read = read_leniently(answer, body)
    assert answer.model_validate(read.model_dump()).model_dump().keys() == answer.model_fields.keys()


@pytest.mark.parametrize(
    ("body", "field", "expected"),
    [
        ({}, "seats_taken", 0),
        ({"seats_taken": 7}, "seats_taken", 7),
        ({"seats_taken": True}, "seats_taken", 0),
        ({"seats_taken": "7"}, "seats_taken", 0),
        ({"reasons": ["draining", 1, None]}, "reasons", ["draining"]),
        ({"reasons": "draining"}, "reasons", []),
        ({"warmup": {"stages": {"batch": [1.5, "x", 2], "single": 1}}}, "warmup", {"batch": [1.5, 2.0]}),
        ({"engine": [1]}, "engine", schema.EngineStatus()),
        ({"ordering": {"error": 1}}, "ordering", schema.OrderingStatus()),
        (
            {"limit": {"live": 8, "reason": 1}},
            "limit",
            {"live": 8, "proposed": 0, "ceiling": 0, "reason": "", "ordered": None}
            | {"kv_seats": None, "kv_seats_tokens": 0.0, "kv_seats_recorded": False, "knee_seats": None},
        ),
    ],
)
def test_what_is_understood_is_kept(body: dict[str, Any], field: str, expected: object) -> None:
    """The part of it that has its shape; the rest is at its default, or empty."""
    found = getattr(read_leniently(schema.Status, body), field)
    if field == "warmup":
        found = found.stages
    assert (found.model_dump() if isinstance(expected, dict) and isinstance(found, BaseModel) else found) == expected


def test_a_whole_answer_is_read_as_the_strict_reader_does() -> None:
    """But for what this version does not know."""
    answer = schema.FallbackState(
        rung="cap", moves=[schema.FallbackMove(time="t", before="normal", after="cap", trigger="errors")]
    )
    assert read_leniently(schema.FallbackState, answer.model_dump()) == answer
