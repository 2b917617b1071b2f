"""Requests in OpenTelemetry: ids and traces, the span of the wait in the queue, and the metrics ``gen_ai.*``."""

from headway.tracing.current_request import CURRENT_REQUEST, CurrentRequest, TraceParent
from headway.tracing.gen_ai_metrics import GenAiMetrics, gen_ai_metrics
from headway.tracing.queue_spans import QueueSpans, queue_spans
from headway.tracing.request_ids import RequestIds

__all__ = [
    "CURRENT_REQUEST",
    "CurrentRequest",
    "GenAiMetrics",
    "QueueSpans",
    "RequestIds",
    "TraceParent",
    "gen_ai_metrics",
    "queue_spans",
]
