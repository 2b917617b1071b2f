"""The bodies of commands to the admin API: read within bounds of bytes and time, and checked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from headway.api.schema import Command
from headway.http.admin.problem import ProblemError
from headway_policies.preset import Issue, shown

MAX_BODY_BYTES = 16 * 1024
#: How long a command may take to arrive, in all.
BODY_WITHIN_S = 10.0
_MAX_ERRORS = 10  # of one body; the keys in it are the client's own
_MAX_KEY_CHARS = 60

ACommand = TypeVar("ACommand", bound=Command)


def parse_command(body: bytes, expected: type[ACommand]) -> ACommand:
    """The command in a body. Raises ProblemError for one that is no JSON, or none of this kind."""
    try:
        return expected.model_validate(json.loads(body))
    except ValidationError as error:
        wrong = [_issue(mistake) for mistake in error.errors()[:_MAX_ERRORS]]
        detail = "; ".join(f"{issue.where}: {issue.message}" for issue in wrong)
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{detail}.", errors=wrong) from None
    except (ValueError, RecursionError):
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "The body is not valid JSON.") from None


async def read_body(request: Request) -> bytes:
    """The whole body of a command. Raises ProblemError: it is no JSON by its type, too large, late, or not whole."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be application/json.")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    allowed = f"The body may have {MAX_BODY_BYTES} bytes at most."
                    raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, allowed)
    except ClientDisconnect:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "The body ended early.") from None
    except TimeoutError:
        late = f"The body did not arrive within {BODY_WITHIN_S:.0f} s."
        raise ProblemError(HTTPStatus.REQUEST_TIMEOUT, late, {"Connection": "close"}) from None
    return bytes(body)


def _issue(detail: Mapping[str, Any]) -> Issue:
    """An error of a body. The value of a key that is unknown may be anything, a secret too: it is not repeated."""
    where = ".".join(str(part) for part in detail["loc"])[:_MAX_KEY_CHARS] or "body"
    value = None if detail["type"] in ("missing", "extra_forbidden") else shown(detail["input"])
    return Issue(where, detail["msg"], value)
