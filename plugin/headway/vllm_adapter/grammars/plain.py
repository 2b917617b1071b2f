"""Plain grammars: schemas and choices whose compilation takes milliseconds whatever they say.

They are short and have nothing that multiplies: no pattern, no bounded repetition, no range of numbers, no grammar in a
language of its own, and few choices between schemas. All else is compiled outside of the engine first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_MOST_BYTES = 4096
_MOST_NODES = 256
_MOST_CHOICES = 16  # of all anyOf and oneOf: what can be read in several ways costs time at each token
#: The words that a plain schema may have; each adds its own length to the grammar, and multiplies nothing.
_KEYWORDS = frozenset(
    {
        "$schema", "$id", "$defs", "$ref", "definitions", "title", "description", "examples", "default", "type", "enum",
        "const", "properties", "required", "additionalProperties", "items", "anyOf", "oneOf", "strict",
    }
)  # fmt: skip
_NAMED, _LISTED, _SINGLE = ("properties", "$defs", "definitions"), ("anyOf", "oneOf"), ("items", "additionalProperties")


def is_plain(fields: Mapping[str, Any]) -> bool:
    """Whether the fields of ``StructuredOutputsParams`` that are set need no check."""
    kinds = fields.keys() - {"disable_any_whitespace", "disable_additional_properties"}
    if kinds == {"json_object"}:
        return True
    if kinds == {"choice"}:
        return (
            isinstance(fields["choice"], list)
            and sum(len(str(choice)) + 1 for choice in fields["choice"]) <= _MOST_BYTES
        )
    return kinds == {"json"} and _is_plain_schema(fields["json"])


def _is_plain_schema(schema: Any) -> bool:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    if len(text) > _MOST_BYTES:
        return False
    try:
        waiting, nodes, choices = [json.loads(text)], 0, 0
    except (ValueError, RecursionError):
        return True  # the engine refuses it unread
    while waiting:
        node, nodes = waiting.pop(), nodes + 1
        if isinstance(node, dict):
            choices += sum(len(node[name]) for name in _LISTED if isinstance(node.get(name), list))
        if nodes > _MOST_NODES or choices > _MOST_CHOICES:
            return False
        if not isinstance(node, bool):
            below = _below(node)
            if below is None:
                return False
            waiting += below
    return True


def _below(node: Any) -> list[Any] | None:
    """The schemas inside this schema; None where it is no schema, or not a plain one."""
    if not isinstance(node, dict) or not node.keys() <= _KEYWORDS:
        return None
    found: list[Any] = []
    for name, value in node.items():
        if name in _NAMED:
            if not isinstance(value, dict):
                return None
            found += value.values()
        elif name in _LISTED:
            if not isinstance(value, list):
                return None
            found += value
        elif name in _SINGLE:
            found.append(value)
    return found
