"""The OpenAPI 3.1 document of the admin API, made from its models and its table of routes."""

from __future__ import annotations

from collections.abc import Mapping
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
_DESCRIPTION = (
    "A command is a PUT or a POST with a JSON body. A command needs the operator's token, reading either token."
)
#: Why a route refuses, by status.
_REFUSALS: Mapping[HTTPStatus, str] = {
    HTTPStatus.BAD_REQUEST: "The body ended early.",
    HTTPStatus.UNAUTHORIZED: "No token, or a wrong one.",
    HTTPStatus.FORBIDDEN: "The token may only read.",
    HTTPStatus.NOT_FOUND: "The admin API is off: the server has no token.",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time.",
    HTTPStatus.CONFLICT: "The state is so already, or the change is not possible now.",
    HTTPStatus.PRECONDITION_FAILED: "Another revision is in force; the ETag names it.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.REQUEST_URI_TOO_LONG: "The query is too long.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not application/json.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "The request is not valid.",
    HTTPStatus.PRECONDITION_REQUIRED: "If-Match is missing.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many wrong tokens from this address.",
    HTTPStatus.NOT_IMPLEMENTED: "This server cannot do this.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The server cannot do this for the moment.",
}
#: The headers of an answer by its status, and whether each is always there.
_HEADERS: Mapping[HTTPStatus, tuple[tuple[str, bool], ...]] = {
    HTTPStatus.UNAUTHORIZED: (("WWW-Authenticate", True),),
    HTTPStatus.REQUEST_TIMEOUT: (("Connection", False),),
    HTTPStatus.PRECONDITION_FAILED: (("ETag", True),),
    HTTPStatus.PRECONDITION_REQUIRED: (("ETag", True),),
    HTTPStatus.TOO_MANY_REQUESTS: (("Retry-After", True),),
    HTTPStatus.SERVICE_UNAVAILABLE: (("Retry-After", True),),
}
_HEADER_SCHEMAS: Mapping[str, dict[str, Any]] = {
    "ETag": _REVISION,
    "Retry-After": {"type": "integer", "minimum": 1},
}


@cache
def document(version: str) -> dict[str, Any]:
    """The whole document, for a server of this version. Not to be changed: it is made once."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes.TABLE:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headway admin API", "version": version, "description": _DESCRIPTION},
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
        if route.command is not None:
            modes[route.command] = "validation"
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
    if route.command is not None:
        found["requestBody"] = {"required": True, "content": {_JSON: {"schema": _reference(route.command)}}}
    return found


def _parameters(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if route.versioned and route.command is not None:
        found.append(
            {
                "name": "If-Match",
                "in": "header",
                "required": True,
                "description": "The ETag of the preset that the command was decided on; * for any.",
                "schema": {"type": "string"},
            }
        )
    for parameter in route.query:
        choices = {"enum": list(parameter.choices)} if parameter.choices else {}
        schema_of = {"type": "string", **choices}
        found.append({"name": parameter.name, "in": "query", "description": parameter.meaning, "schema": schema_of})
    if route.has_limit:
        bounds = {"minimum": 1, "maximum": routes.MAX_AUDIT_ENTRIES, "default": routes.DEFAULT_AUDIT_ENTRIES}
        found.append({"name": "limit", "in": "query", "schema": {"type": "integer", **bounds}})
        found.append(
            {
                "name": "kind",
                "in": "query",
                "description": "Only entries of this kind; by default all entries except commands that changed "
                "nothing.",
                "schema": {"type": "string", "enum": [kind.value for kind in schema.AuditKind]},
            }
        )
    return found


def _responses(route: Route) -> dict[str, Any]:
    found = {str(int(status)): _answer(route, status) for status in (route.status, route.otherwise) if status}
    refused = {"content": {_PROBLEM: {"schema": _reference(schema.Problem)}}}
    for status in route.refusals:
        found[str(int(status))] = {"description": _REFUSALS[status], **refused, **_headers(_HEADERS.get(status, ()))}
    return found


def _answer(route: Route, status: HTTPStatus) -> dict[str, Any]:
    """The response of a route that refuses nothing."""
    other = {"type": "object" if route.media == _JSON else "string"}
    answer = other if route.answer is None else _reference(route.answer)
    headers = [*_HEADERS.get(status, ())]
    if route.versioned:
        headers.append(("ETag", True))
    return {
        "description": f"{status.phrase}.",
        "content": {route.media: {"schema": answer}, **_as_text(route.other_media)},
        **_headers(tuple(headers)),
    }


def _as_text(media: str | None) -> dict[str, Any]:
    """The same answer in another type."""
    return {} if media is None else {media: {"schema": {"type": "string"}}}


def _headers(named: tuple[tuple[str, bool], ...]) -> dict[str, Any]:
    """The documented headers of a response; empty without any."""
    found = {
        name: {"required": required, "schema": _HEADER_SCHEMAS.get(name, {"type": "string"})}
        for name, required in named
    }
    return {"headers": found} if found else {}


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _SCHEMAS.format(model=model.__name__)}
