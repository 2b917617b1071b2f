"""The error answers of the admin API: problem details (RFC 9457)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus

from starlette.responses import Response

from headway.api import schema
from headway_policies.preset import Issue


class ProblemError(Exception):
    """An error answer: status, one sentence, headers that belong to it, and the single errors where there are some."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        headers: Mapping[str, str] | None = None,
        errors: Iterable[Issue] = (),
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.errors = status, detail, headers, tuple(errors)


def problem_response(problem: ProblemError) -> Response:
    """The answer for a problem; ``errors`` is left out where there is none."""
    errors = [
        schema.ProblemError(where=error.where, message=error.message, value=error.value) for error in problem.errors
    ]
    body = schema.Problem(
        title=problem.status.phrase, status=int(problem.status), detail=problem.detail, errors=errors or None
    )
    text = body.model_dump_json(exclude=None if errors else {"errors"})
    return Response(text, problem.status, problem.headers, media_type="application/problem+json")
