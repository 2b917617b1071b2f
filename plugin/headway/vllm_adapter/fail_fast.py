"""A change of vLLM's validators: each stops at the first wrong element of a list.

pydantic reports every wrong element of every list, for every member of a union: 30 KB of ``{"input": [{}, {}, ...]}``
on ``/v1/responses`` block the event loop for 87 s and cost 9 GB. The same requests are accepted as before; a refusal
names the first wrong element only. The validators are those that FastAPI keeps for the body of each route, and those
that ``/invocations`` tries one after another.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import FunctionType
from typing import Any

log = logging.getLogger(__name__)

_EFFECT = "a request with a long list of invalid elements may block the server for seconds"
_LISTS = frozenset({"list", "tuple", "set", "frozenset"})
#: Parts of a core schema that hold values of the model's author, not schemas.
_NO_SCHEMAS = frozenset({"metadata", "serialization", "default", "expected", "ref", "schema_ref"})


def fail_fast(app: Any) -> int:
    """Change the validators of all routes of this FastAPI application; returns how many were changed."""
    from pydantic_core import SchemaValidator

    found = {id(adapter): adapter for route in app.routes for adapter in _adapters(route)}
    changed = 0
    for adapter in found.values():
        try:
            adapter.validator = SchemaValidator(_failing_fast(adapter.core_schema), _use_prebuilt=False)
            changed += 1
        except Exception as error:  # a validator that stays slow must not keep the server from starting
            log.warning("a request validator was not changed (%s: %.200s); %s", type(error).__name__, error, _EFFECT)
    if not changed:
        log.warning("no request validator was found; %s", _EFFECT)
    return changed


def _adapters(route: Any) -> Iterator[Any]:
    """The TypeAdapters of a route: that of its body, and those that its endpoint has enclosed."""
    adapter = getattr(getattr(route, "body_field", None), "_type_adapter", None)
    if adapter is not None:
        yield adapter
    yield from _enclosed(getattr(route, "endpoint", None), set())


def _enclosed(value: Any, seen: set[int]) -> Iterator[Any]:
    """The TypeAdapters in the closures of a function and of the functions it wraps."""
    from pydantic import TypeAdapter

    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, TypeAdapter):
        yield value
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _enclosed(element, seen)
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield from _enclosed(cell.cell_contents, seen)
            except ValueError:  # a cell that is empty yet
                continue


def _failing_fast(schema: Any) -> Any:
    """A copy of a core schema in which each list ends at its first error.

    A dict whose ``type`` is no string is a table of schemas by name, such as the fields of a model.
    """
    if isinstance(schema, list | tuple):
        return type(schema)(_failing_fast(element) for element in schema)
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):
        return {name: _failing_fast(part) for name, part in schema.items()}
    copy = {key: value if key in _NO_SCHEMAS else _failing_fast(value) for key, value in schema.items()}
    if kind in _LISTS:
        copy["fail_fast"] = True
    return copy
