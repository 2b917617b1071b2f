"""The span of the wait in the queue, as OpenTelemetry exports it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.admission.gate import Gate
from headway.admission.request_context import RequestContext
from headway.errors import Refused
from headway.tracing import CURRENT_REQUEST, CurrentRequest, QueueSpans, TraceParent, queue_spans
from headway_policies import Ending, Reason, Timeouts

sdk = pytest.importorskip("opentelemetry.sdk.trace")
PARENT = TraceParent("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1)
ENDPOINT = "http://127.0.0.1:4317"


class Exported:
    """The spans of a provider of its own, in the place of the module ``opentelemetry.trace``."""

    def __init__(self) -> None:
        from opentelemetry import trace
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self.exporter = InMemorySpanExporter()
        provider = sdk.TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.get_tracer = provider.get_tracer
        self.SpanContext, self.TraceFlags = trace.SpanContext, trace.TraceFlags
        self.NonRecordingSpan, self.set_span_in_context = trace.NonRecordingSpan, trace.set_span_in_context

    def span_of(self, context: RequestContext) -> Any:
        """What is exported for a request; None where nothing is."""
        QueueSpans(self).report(context)
        return next(iter(self.exporter.get_finished_spans()), None)


@on_virtual_time
async def test_a_dispatched_request_has_a_span_of_its_wait() -> None:
    """From the arrival to the dispatch, whenever the answer ends; a child of the caller's span."""
    CURRENT_REQUEST.set(CurrentRequest("order-66", "order-66-1", PARENT))
    gate = Gate(small_preset())
    first, permit = gate.enter(), gate.enter("batch")
    await asyncio.sleep(3)
    first.leave(Ending.COMPLETED)
    await permit.admitted()
    await asyncio.sleep(5)
    permit.leave(Ending.COMPLETED)
    span = Exported().span_of(RequestContext(permit=permit))
    assert span.name == "headway.queue"
    assert (span.context.trace_id, span.parent.span_id) == (int(PARENT.trace_id, 16), int(PARENT.span_id, 16))
    assert span.parent.is_remote
    assert span.end_time - span.start_time == 3_000_000_000
    assert dict(span.attributes) == {
        "headway.class": "batch",
        "headway.preset": "small",
        "headway.outcome": "dispatched",
        "headway.request_id": "order-66",
    }


@on_virtual_time
async def test_a_request_that_timed_out_in_the_queue_says_why() -> None:
    """Outside of an HTTP request the span is the first of its trace."""
    gate = Gate(small_preset())
    gate.enter()
    permit = gate.enter(timeouts=Timeouts(queue_s=2))
    with pytest.raises(Refused):
        await permit.admitted()
    span = Exported().span_of(RequestContext(permit=permit))
    assert span.attributes["headway.outcome"] == Reason.QUEUE_TIMEOUT
    assert span.parent is None
    assert span.end_time - span.start_time == 2_000_000_000


@on_virtual_time
async def test_a_request_that_timed_out_later_was_dispatched() -> None:
    """The span is about the queue, whatever came of the request."""
    permit = Gate(small_preset()).enter(timeouts=Timeouts(total_s=2))
    await asyncio.sleep(3)
    assert permit.refused is not None
    assert Exported().span_of(RequestContext(permit=permit)).attributes["headway.outcome"] == "dispatched"


@on_virtual_time
async def test_a_client_that_left_the_queue_is_cancelled() -> None:
    """The request was neither dispatched nor refused."""
    gate = Gate(small_preset())
    gate.enter()
    permit = gate.enter()
    permit.leave(Ending.CANCELLED)
    assert Exported().span_of(RequestContext(permit=permit)).attributes["headway.outcome"] == "cancelled"


def test_a_request_refused_at_once_has_an_empty_span() -> None:
    """The request never had a permit."""
    span = Exported().span_of(RequestContext("batch", rejected=Refused(Reason.QUEUE_FULL, 1)))
    assert (span.attributes["headway.outcome"], span.attributes["headway.class"]) == (Reason.QUEUE_FULL, "batch")
    assert span.start_time == span.end_time


def test_a_request_that_asked_for_no_seat_has_no_span() -> None:
    """A list of models, or a request that vLLM refused before."""
    assert Exported().span_of(RequestContext()) is None


def test_only_a_server_that_exports_traces_has_spans() -> None:
    """By the provider that vLLM has set up."""
    assert queue_spans(None) is None
    assert queue_spans("") is None
    assert isinstance(queue_spans(ENDPOINT), QueueSpans)


def test_nothing_of_opentelemetry_is_imported_without_an_endpoint() -> None:
    """In a process of its own."""
    code = (
        "import sys; from headway.tracing import queue_spans; queue_spans(None);"
        "sys.exit(any(one.startswith('opentelemetry') for one in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_opentelemetry_there_are_no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint alone is no error here: vLLM says what is missing."""
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    assert queue_spans(ENDPOINT) is None
