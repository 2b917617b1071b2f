"""The link between the log lines and spans of one request: its ids, its trace, and the span of its wait."""

from headway.tracing.current_request import CURRENT_REQUEST, CurrentRequest, TraceParent
from headway.tracing.queue_spans import QueueSpans, queue_spans
from headway.tracing.request_ids import RequestIds

__all__ = [
    "CURRENT_REQUEST",
    "CurrentRequest",
    "QueueSpans",
    "RequestIds",
    "TraceParent",
    "queue_spans",
]
