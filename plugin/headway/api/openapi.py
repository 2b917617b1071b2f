"""The OpenAPI 3.1 document of the admin API, made from its models and its table of routes."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from headway.api import routes, schema
from headway.api.routes import Route

_JSON = "application/json"
_PROBLEM = "application/problem+json"
_SCHEMAS = "#/components/schemas/{model}"
_REVISION = {"type": "string", "pattern": '^"[1-9][0-9]*"$'}


@cache
def document(version: str) -> dict[str, Any]:
    """The whole document, for a server of this version. Not to be changed: it is made once."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes.TABLE:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headway admin API", "version": version},
        "paths": paths,
        "components": {
            "schemas": _models(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _models() -> dict[str, Any]:
    modes: dict[type[BaseModel], JsonSchemaMode] = {schema.Problem: "serialization"}
    for route in routes.TABLE:
        if route.answer is not None:
            modes[route.answer] = "serialization"
        if route.order is not None:
            modes[route.order] = "validation"
    _, found = models_json_schema(list(modes.items()), ref_template=_SCHEMAS)
    models: dict[str, Any] = found["$defs"]
    return models


def _operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {"operationId": route.name, "summary": route.summary, "responses": _responses(route)}
    if route.role is not None:
        found["security"] = [{"token": []}]
        found["x-role"] = str(route.role)
    if parameters := _parameters(route):
        found["parameters"] = parameters
    if route.order is not None:
        found["requestBody"] = {"required": True, "content": {_JSON: {"schema": _reference(route.order)}}}
    return found


def _parameters(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if route.versioned and route.order is not None:
        found.append(
            {
                "name": "If-Match",
                "in": "header",
                "required": True,
                "description": "The ETag of the preset that the order was decided on; * for any.",
                "schema": {"type": "string"},
            }
        )
    if route.has_limit:
        bounds = {"minimum": 1, "maximum": routes.MAX_AUDIT_ENTRIES, "default": routes.DEFAULT_AUDIT_ENTRIES}
        found.append({"name": "limit", "in": "query", "schema": {"type": "integer", **bounds}})
    return found


def _responses(route: Route) -> dict[str, Any]:
    other = {"type": "object" if route.media == _JSON else "string"}
    answer = other if route.answer is None else _reference(route.answer)
    good: dict[str, Any] = {"content": {route.media: {"schema": answer}}}
    if route.versioned:
        good["headers"] = {"ETag": {"schema": _REVISION}}
    statuses = [route.status] if route.otherwise is None else [route.status, route.otherwise]
    refused = {"content": {_PROBLEM: {"schema": _reference(schema.Problem)}}}
    return {
        **{str(int(status)): {"description": _words(status), **good} for status in statuses},
        **{str(int(status)): {"description": _words(status), **refused} for status in route.refusals},
    }


def _words(status: HTTPStatus) -> str:
    return f"{status.phrase}."


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _SCHEMAS.format(model=model.__name__)}
