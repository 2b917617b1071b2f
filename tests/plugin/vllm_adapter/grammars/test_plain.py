"""Which grammars need no check: short ones without anything that multiplies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.vllm_adapter.grammars.plain import is_plain

PERSON: dict[str, Any] = {
    "title": "Person",
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "mood": {"enum": ["good", "bad"]},
        "age": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "friends": {"type": "array", "items": {"$ref": "#/$defs/Friend"}},
    },
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {"Friend": {"type": "object", "properties": {"pattern": {"type": "string"}}}},
}


@pytest.mark.parametrize(
    "fields",
    [{"json": PERSON}, {"json": json.dumps(PERSON)}, {"json_object": True}, {"choice": ["a", "b"]}, {"json": "{"}],
    ids=["a schema", "as text", "any object", "choices", "no JSON at all"],
)
def test_what_most_requests_ask_for_is_plain(fields: dict[str, Any]) -> None:
    """A property may have the name of a keyword."""
    assert is_plain(fields)
    assert is_plain({**fields, "disable_any_whitespace": True})


@pytest.mark.parametrize(
    "fields",
    [
        {"regex": "a"},
        {"grammar": 'root ::= "a"'},
        {"structural_tag": "{}"},
        {"json": {"type": "object"}, "whitespace_pattern": "(a{1,99}){1,99}"},
        {"choice": ["a" * 5000]},
        {"choice": "a" * 5000},
        {"json": {"type": "string", "pattern": "a"}},
        {"json": {"type": "string", "maxLength": 9}},
        {"json": {"type": "integer", "minimum": 1}},
        {"json": {"type": "array", "items": {"type": "string", "format": "email"}, "minItems": 4}},
        {"json": {"allOf": [{"type": "string"}]}},
        {"json": {"properties": {"a": {"properties": {"b": {"pattern": "a"}}}}}},
        {"json": {"items": [{"pattern": "a"}]}},
        {"json": {"anyOf": [{"pattern": "a"}]}},
        {"json": {"anyOf": {"pattern": "a"}}},
        {"json": {"$defs": {"a": {"patternProperties": {}}}}},
        {"json": {"properties": [1]}},
        {"json": {"anyOf": [{"type": "string"}] * 300}},
        {"json": {"properties": {"a": {"anyOf": [True] * 9}, "b": {"oneOf": [True] * 9}}}},
        {"json": {"title": "a" * 5000}},
    ],
    ids=lambda fields: str(fields)[:60],
)
def test_what_may_multiply_is_not(fields: dict[str, Any]) -> None:
    """Nor what is long, or cannot be read."""
    assert not is_plain(fields)
