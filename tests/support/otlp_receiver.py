"""A receiver of OpenTelemetry's traces: OTLP over HTTP, in protobuf, as a collector takes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from answering_server import Answer, Asked, answering
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class OtlpReceiver:
    """``bodies`` are the requests so far; ``endpoint`` is what an exporter is given."""

    endpoint: str = ""
    bodies: list[bytes] = field(default_factory=list)

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


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """One on a free port, until the block ends."""
    receiver = OtlpReceiver()

    def answer(request: Asked) -> Answer:
        receiver.bodies.append(request.body)
        body = ExportTraceServiceResponse().SerializeToString()
        return Answer(body=body, headers={"Content-Type": "application/x-protobuf"})

    with answering(answer) as url:
        receiver.endpoint = f"{url}/v1/traces"
        yield receiver
