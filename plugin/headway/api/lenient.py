"""A reader of answers that accepts those of any version.

A part that is missing or has another shape gets its default, or the empty value of its type: a page then lacks a part
and is not an error. The strict reader is pydantic's own ``model_validate_json``.
"""

from __future__ import annotations

import types
import typing
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

_Model = TypeVar("_Model", bound=BaseModel)
_UNUSABLE = object()


def read_leniently(model: type[_Model], body: object) -> _Model:
    """A model of ``body``, which may be any JSON value. Never raises."""
    given = body if isinstance(body, dict) else {}
    parts = {name: _field(field, given.get(name, _UNUSABLE)) for name, field in model.model_fields.items()}
    return model.model_construct(**parts)


def _field(field: FieldInfo, value: object) -> Any:
    read = _UNUSABLE if value is _UNUSABLE else _read(field.annotation, value)
    if read is not _UNUSABLE:
        return read
    return _empty(field.annotation) if field.is_required() else field.get_default(call_default_factory=True)


def _read(kind: Any, value: object) -> Any:
    """The value converted to this type, or ``_UNUSABLE``. Wrong parts of a list or an object are left out."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return read_leniently(kind, value) if isinstance(value, dict) else _UNUSABLE
    if origin is list:
        items = [_read(inner[0], item) for item in value] if isinstance(value, list) else None
        return _UNUSABLE if items is None else [item for item in items if item is not _UNUSABLE]
    if origin is dict:
        parts = {key: _read(inner[1], part) for key, part in value.items()} if isinstance(value, dict) else None
        return _UNUSABLE if parts is None else {key: part for key, part in parts.items() if part is not _UNUSABLE}
    if origin in (types.UnionType, typing.Union):
        found = (_read(kind, value) for kind in inner)
        return next((reading for reading in found if reading is not _UNUSABLE), _UNUSABLE)
    try:
        return _adapter(kind).validate_python(value, strict=True)
    except ValidationError:
        return _UNUSABLE


def _empty(kind: Any) -> Any:
    """The empty value of a type: none, nothing, 0, or a model of such."""
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return None
    return read_leniently(kind, {}) if issubclass(origin or kind, BaseModel) else (origin or kind)()


@lru_cache(maxsize=16)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
