"""A receiver of OpenTelemetry's traces and metrics: OTLP over HTTP, in protobuf, as a collector takes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from handler_server import Answer, Asked, answering
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint
from opentelemetry.proto.trace.v1.trace_pb2 import Span

METRICS = "/v1/metrics"


@dataclass
class OtlpReceiver:
    """``bodies`` are the requests of traces so far, ``metric_bodies`` those of metrics; the endpoints are what an
    exporter is given."""

    endpoint: str = ""
    metrics_endpoint: str = ""
    bodies: list[bytes] = field(default_factory=list)
    metric_bodies: list[bytes] = field(default_factory=list)

    def spans(self, name: str) -> list[Span]:
        """The spans of this name."""
        return [
            span
            for body in list(self.bodies)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
            if span.name == name
        ]

    def points(self, name: str) -> list[HistogramDataPoint]:
        """The points of the histogram of this name, as they were sent last."""
        return [
            point
            for body in self.metric_bodies[-1:]
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.histogram.data_points
        ]


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """One on a free port, until the block ends."""
    receiver = OtlpReceiver()

    def answer(request: Asked) -> Answer:
        of_metrics = request.path == METRICS
        (receiver.metric_bodies if of_metrics else receiver.bodies).append(request.body)
        body = (ExportMetricsServiceResponse() if of_metrics else ExportTraceServiceResponse()).SerializeToString()
        return Answer(body=body, headers={"Content-Type": "application/x-protobuf"})

    with answering(answer) as url:
        receiver.endpoint, receiver.metrics_endpoint = f"{url}/v1/traces", f"{url}{METRICS}"
        yield receiver
