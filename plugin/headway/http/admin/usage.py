"""The handler of the accounting: what tenants, keys, classes and models have used, as JSON or CSV."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from headway.api import routes as api
from headway.audit import Caller
from headway.http.admin.answers import Handler, answer
from headway.http.admin.problem import ProblemError
from headway.operator import Control
from headway.usage import UnreadableError, csv_lines
from headway_policies.usage import QueryError, read_query

_FORMATS = ("json", "csv")


async def _usage(control: Control, request: Request, caller: Caller) -> Response:
    if control.usage is None:
        raise ProblemError(HTTPStatus.NOT_IMPLEMENTED, "The accounting is off: start with HEADWAY_USAGE_DB=FILE.")
    asked = dict(request.query_params)
    usual = "csv" if _prefers_csv(request.headers.get("accept", "")) else "json"
    form = asked.get("format", usual)
    try:
        if form not in _FORMATS:
            raise QueryError(f"format: one of {', '.join(_FORMATS)} is needed")
        found = await asyncio.to_thread(control.usage.read, read_query(asked, time.time()))
    except QueryError as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.") from None
    except UnreadableError as error:
        text = f"The usage database cannot be read now: {error}."
        raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, text, {"Retry-After": "5"}) from None
    if form == "json":
        budgets = control.usage.budgets(asked.get("tenant"))
        return answer(found.model_copy(update={"budgets": budgets, **control.usage.of_tenants(found)}))
    headers = {"Content-Disposition": 'attachment; filename="usage.csv"'}
    return Response("".join(csv_lines(found)), headers=headers, media_type=api.USAGE.other_media)


def _prefers_csv(accept: str) -> bool:
    """Whether CSV is named, and JSON is not before it."""
    kinds = [kind.partition(";")[0].strip().lower() for kind in accept.split(",")]
    named = [kind for kind in kinds if kind in ("text/csv", "application/json")]
    return named[:1] == ["text/csv"]


#: The handler of the route, by its name.
HANDLERS: Mapping[str, Handler] = {api.USAGE.name: _usage}
