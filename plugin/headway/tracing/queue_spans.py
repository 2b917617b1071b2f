"""The span ``headway.queue``: the wait of a request, from its arrival to its dispatch or its refusal.

The span is exported by the provider that vLLM sets up for ``--otlp-traces-endpoint``, with the caller's span as its
parent, as vLLM's own span ``llm_request`` has it. OpenTelemetry is imported only where that option is given.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from typing import TYPE_CHECKING, Any

from headway.tracing.current_request import CURRENT_REQUEST, TraceParent

if TYPE_CHECKING:  # the processes of the engine log with this package, and have no gate
    from headway.admission.request_context import RequestContext

NAME = "headway.queue"
DISPATCHED = "dispatched"
CANCELLED = "cancelled"
_NS_PER_S = 1_000_000_000


class QueueSpans:
    """Exports one span for each request that asked for a seat. ``trace`` is the module ``opentelemetry.trace``.

    Its attributes are ``headway.class``, ``headway.preset``, ``headway.request_id`` and ``headway.outcome``:
    dispatched, cancelled, or the reason of the refusal.
    """

    def __init__(self, trace: Any) -> None:
        self._trace = trace
        self._tracer = trace.get_tracer("headway")
        self._no_span = importlib.import_module("opentelemetry.context").Context()

    def report(self, context: RequestContext) -> None:
        """Export the span of a request that is over. Call it on the gate's event loop, in the request's context."""
        permit, now_ns = context.permit, time.time_ns()
        if permit is not None:
            started_ns = now_ns - _ns(asyncio.get_running_loop().time() - permit.ticket.arrived_s)
            ended_ns = min(started_ns + _ns(permit.wait_s), now_ns)
            class_name, preset = permit.ticket.class_name, permit.preset_name
            outcome = DISPATCHED if permit.dispatched_s is not None else str(permit.reason or CANCELLED)
        elif context.rejected is not None:
            started_ns = ended_ns = now_ns
            class_name, preset, outcome = context.class_name or "", "", str(context.rejected.reason)
        else:
            return
        current = CURRENT_REQUEST.get()
        attributes = {"headway.class": class_name, "headway.preset": preset, "headway.outcome": outcome}
        if current is not None:
            attributes["headway.request_id"] = current.request_id
        parent = None if current is None else current.trace
        span = self._tracer.start_span(NAME, context=self._below(parent), start_time=started_ns, attributes=attributes)
        span.end(end_time=ended_ns)

    def _below(self, parent: TraceParent | None) -> Any:
        """OpenTelemetry's context of another process's span; a context without a span if unknown."""
        if parent is None:
            return self._no_span
        remote = self._trace.SpanContext(
            int(parent.trace_id, 16),
            int(parent.span_id, 16),
            is_remote=True,
            trace_flags=self._trace.TraceFlags(parent.flags),
        )
        return self._trace.set_span_in_context(self._trace.NonRecordingSpan(remote), self._no_span)


def queue_spans(otlp_endpoint: str | None) -> QueueSpans | None:
    """The spans of a server whose vLLM exports its own to this endpoint; None where it exports none."""
    if not otlp_endpoint:
        return None
    try:
        return QueueSpans(importlib.import_module("opentelemetry.trace"))
    except ImportError:
        return None


def _ns(seconds: float) -> int:
    return int(seconds * _NS_PER_S)
