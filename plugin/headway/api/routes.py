"""The routes of the admin API: one table for the server, the client and the OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from pydantic import BaseModel

from headway.api import schema

#: The most entries of the audit log that one request may ask for.
MAX_AUDIT_ENTRIES = 500
DEFAULT_AUDIT_ENTRIES = 50


class Role(StrEnum):
    """The rights of a token: a viewer reads, an operator also changes."""

    VIEWER = "viewer"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A parameter of a query, a text; ``choices`` are the values that it may have, where they are known."""

    name: str
    meaning: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """A route: what it takes, what it answers, and with which statuses it refuses.

    ``role`` is None where no token is needed, ``answer`` is None for the OpenAPI document itself and for an answer that
    is no JSON, whose type is ``media``. ``otherwise`` is a second status with the same answer. ``versioned``: the
    answer carries the revision of the preset as its ETag; a versioned route with a command needs that ETag in
    ``If-Match``. ``computes``: its command only asks for figures. ``other_media``
    is a type in which the same can be asked for.
    """

    name: str
    method: str
    path: str
    summary: str
    role: Role | None
    answer: type[BaseModel] | None
    command: type[schema.Command] | None = None
    status: HTTPStatus = HTTPStatus.OK
    otherwise: HTTPStatus | None = None
    problems: tuple[HTTPStatus, ...] = ()
    versioned: bool = False
    has_limit: bool = False
    computes: bool = False
    media: str = "application/json"
    other_media: str | None = None
    query: tuple[QueryParameter, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the route changes the server."""
        return self.command is not None and not self.computes

    @property
    def refusals(self) -> tuple[HTTPStatus, ...]:
        """Every status whose answer is a problem document, in ascending order."""
        found = set(self.problems)
        if self.role is not None:
            found |= _NEEDS_TOKEN
        if self.role is Role.OPERATOR:
            found.add(HTTPStatus.FORBIDDEN)
        if self.command is not None:
            found |= _READS_BODY
        return tuple(sorted(found))


_NEEDS_TOKEN = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUEST_URI_TOO_LONG,
    HTTPStatus.TOO_MANY_REQUESTS,
}
_READS_BODY = {
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
}

HEALTHZ = Route("healthz", "GET", "/headway/healthz", "Liveness of the process.", None, schema.Liveness)
READYZ = Route(
    "readyz",
    "GET",
    "/headway/readyz",
    "Readiness for traffic; 503 with the reasons while the server is not ready.",
    None,
    schema.Readiness,
    otherwise=HTTPStatus.SERVICE_UNAVAILABLE,
)
STATUS = Route("status", "GET", "/headway/v1/status", "State of the whole server.", Role.VIEWER, schema.Status)
DESK = Route(
    "desk", "GET", "/headway/v1/desk", "Queued and running requests, without prompts.", Role.VIEWER, schema.DeskDump
)
TRAFFIC = Route(
    "traffic", "GET", "/headway/v1/traffic", "The arrivals of the last half hour.", Role.VIEWER, schema.Traffic
)
TRACE = Route(
    "trace",
    "GET",
    "/headway/v1/traffic/trace",
    "The same request by request, without text and ids: a trace that can be replayed.",
    Role.VIEWER,
    None,
    media="text/csv",
)
PRESETS = Route(
    "presets", "GET", "/headway/v1/presets", "All presets with their settings.", Role.VIEWER, schema.PresetList
)
FORECAST = Route(
    "forecast",
    "POST",
    "/headway/v1/presets/forecast",
    "The recent traffic under other presets, by replays on the model of this engine.",
    Role.OPERATOR,
    schema.Forecast,
    command=schema.ForecastCommand,
    problems=(HTTPStatus.CONFLICT,),
    computes=True,
)
FORECAST_PROGRESS = Route(
    "forecast_progress",
    "GET",
    "/headway/v1/presets/forecast",
    "How far the present forecast is.",
    Role.VIEWER,
    schema.ForecastProgress,
)
PRESET = Route(
    "preset",
    "GET",
    "/headway/v1/preset",
    "The preset in force; its revision is the ETag.",
    Role.VIEWER,
    schema.CurrentPreset,
    versioned=True,
)
SWITCH = Route(
    "switch",
    "PUT",
    "/headway/v1/preset",
    "Switch to another preset, if the one of the ETag is still in force.",
    Role.OPERATOR,
    schema.Switched,
    command=schema.SwitchCommand,
    problems=(HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED),
    versioned=True,
)
UNDO = Route(
    "undo",
    "POST",
    "/headway/v1/preset/undo",
    "Put an earlier revision in force again, if the one of the ETag is still in force.",
    Role.OPERATOR,
    schema.Switched,
    command=schema.UndoCommand,
    problems=(HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED),
    versioned=True,
)
TRIAL = Route(
    "trial",
    "GET",
    "/headway/v1/preset/trial",
    "The trial of the preset in force, or the last trial: its conditions, and the figures before and during it.",
    Role.VIEWER,
    schema.TrialReport,
)
KEEP = Route(
    "keep",
    "POST",
    "/headway/v1/preset/keep",
    "End the trial of the preset in force: it stays, if the one of the ETag is still in force.",
    Role.OPERATOR,
    schema.Trial,
    command=schema.Command,
    problems=(HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED),
    versioned=True,
)
ORDER_LIMIT = Route(
    "order_limit",
    "PUT",
    "/headway/v1/limit",
    "Put the preset in force on another number of seats, for a bounded time or until the next switch.",
    Role.OPERATOR,
    schema.Switched,
    command=schema.LimitCommand,
    problems=(HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED),
    versioned=True,
)
FALLBACK = Route(
    "fallback", "GET", "/headway/v1/fallback", "State of the fallback ladder.", Role.VIEWER, schema.FallbackState
)
ORDER_FALLBACK = Route(
    "order_fallback",
    "PUT",
    "/headway/v1/fallback",
    "Put the fallback ladder on a rung, or make it automatic again.",
    Role.OPERATOR,
    schema.FallbackState,
    command=schema.FallbackCommand,
)
RECYCLE = Route(
    "recycle",
    "POST",
    "/headway/v1/recycle",
    "Replace the engine when its running requests have finished; where memory allows, the new one is started first.",
    Role.OPERATOR,
    schema.RecycleAccepted,
    command=schema.Command,
    status=HTTPStatus.ACCEPTED,
    problems=(HTTPStatus.CONFLICT, HTTPStatus.NOT_IMPLEMENTED),
)
PAUSE = Route(
    "pause",
    "POST",
    "/headway/v1/pause",
    "Suspend dispatch, for a time or until a resume: requests wait, and their time-outs go on; running ones finish.",
    Role.OPERATOR,
    schema.AdmissionChanged,
    command=schema.PauseCommand,
    problems=(HTTPStatus.CONFLICT,),
)
RESUME = Route(
    "resume",
    "POST",
    "/headway/v1/resume",
    "End the pause, or the drain, of an operator.",
    Role.OPERATOR,
    schema.AdmissionChanged,
    command=schema.Command,
    problems=(HTTPStatus.CONFLICT,),
)
DRAIN = Route(
    "drain",
    "POST",
    "/headway/v1/drain",
    "Refuse new and waiting requests, with Retry-After, until a resume; running ones finish.",
    Role.OPERATOR,
    schema.AdmissionChanged,
    command=schema.Command,
    status=HTTPStatus.ACCEPTED,
    problems=(HTTPStatus.CONFLICT,),
)
WARMUP = Route(
    "warmup",
    "POST",
    "/headway/v1/warmup",
    "Run the warm-up of the preset once on the running engine, beside the traffic.",
    Role.OPERATOR,
    schema.WarmupAccepted,
    command=schema.Command,
    status=HTTPStatus.ACCEPTED,
    problems=(HTTPStatus.CONFLICT, HTTPStatus.NOT_IMPLEMENTED),
)
SILENCE = Route(
    "silence",
    "PUT",
    "/headway/v1/silence",
    "Silence an alert on the dashboards of this server, for a time, or end its silence.",
    Role.OPERATOR,
    schema.Silences,
    command=schema.SilenceCommand,
    problems=(HTTPStatus.CONFLICT,),
)
AUDIT = Route(
    "audit",
    "GET",
    "/headway/v1/audit",
    "The last changes and refused attempts, or the last commands that changed nothing.",
    Role.VIEWER,
    schema.AuditLog,
    problems=(HTTPStatus.UNPROCESSABLE_ENTITY,),
    has_limit=True,
)
USAGE = Route(
    "usage",
    "GET",
    "/headway/v1/usage",
    "The use of tenants, keys, classes and models, from the accounting.",
    Role.VIEWER,
    schema.UsageReport,
    problems=(HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.SERVICE_UNAVAILABLE),
    other_media="text/csv",
    query=(
        QueryParameter("since", "A time with a zone, or so long ago, such as 30m, 12h or 7d; 1d where it is left out."),
        QueryParameter("until", "The same; now where it is left out."),
        QueryParameter(
            "by",
            "Groups, with commas: tenant (where it is left out), key, class, model, adapter, outcome, reason.",
        ),
        QueryParameter("every", "A row for each of these, in UTC.", ("minute", "hour", "day")),
        QueryParameter("tenant", "This tenant alone."),
        QueryParameter("format", "Instead of an Accept header.", ("json", "csv")),
    ),
)
OPENAPI = Route("openapi", "GET", "/headway/v1/openapi.json", "This document.", Role.VIEWER, None)

#: Every route of the admin API.
TABLE = (
    HEALTHZ, READYZ, STATUS, DESK, TRAFFIC, TRACE, PRESETS, FORECAST, FORECAST_PROGRESS, PRESET, SWITCH, UNDO,
    TRIAL, KEEP, ORDER_LIMIT, FALLBACK, ORDER_FALLBACK, RECYCLE, PAUSE, RESUME, DRAIN, WARMUP, SILENCE, AUDIT,
    USAGE, OPENAPI,
)  # fmt: skip
