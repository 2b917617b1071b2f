"""The ids of the request that is being served, in a context variable."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from headway.tracing.trace_parent import TraceParent


@dataclass(frozen=True, slots=True)
class CurrentRequest:
    """``request_id`` is what the client sees; ``engine_id`` names its engine calls and is never used twice.

    ``trace`` is the span of the caller, where the request named one.
    """

    request_id: str
    engine_id: str
    trace: TraceParent | None = None


CURRENT_REQUEST: ContextVar[CurrentRequest | None] = ContextVar("headway_current_request", default=None)
