"""The answers of the probes, and the body of an error."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from headway.api.schema.base import Answer


class Liveness(Answer):
    """The process is alive."""

    alive: bool


class Readiness(Answer):
    """Whether the server takes traffic, and if not, why. ``notes``: what to look at, whether it does or not."""

    ready: bool
    reasons: list[str]
    notes: list[str] = Field(default_factory=list)


class ProblemError(Answer):
    """An error of a body: the key, the message, and the wrong value where it may be repeated."""

    where: str
    message: str
    value: str | None = None


class Problem(Answer):
    """Problem details (RFC 9457); ``errors`` is present only where there are some."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[ProblemError] | None = None
