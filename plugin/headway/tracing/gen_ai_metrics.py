"""The metrics ``gen_ai.*`` of OpenTelemetry's semantic conventions for generative AI, exported over OTLP.

They are exported where ``OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`` is set, as the standard has it: over HTTP, or over gRPC
with ``OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=grpc``, each ``OTEL_METRIC_EXPORT_INTERVAL``. OpenTelemetry, which comes with
vLLM, is imported only there. A thread sends; a receiver that is away costs no request anything.

    gen_ai.client.token.usage              tokens of the prompt and of the answer
    gen_ai.server.request.duration         from the arrival to the end, however it ended
    gen_ai.server.time_to_first_token      from the arrival
    gen_ai.server.time_per_output_token    after the first one, of completed answers
"""

from __future__ import annotations

import atexit
import importlib
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from headway_policies.request import Outcome

if TYPE_CHECKING:  # the processes of the engine log with this package, and have no gate
    from headway.admission.listeners import EndedRequest

log = logging.getLogger(__name__)

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.{}.metric_exporter"
_AT_EXIT_MS: Final = 2_000
#: The bounds of buckets that the conventions name.
_TOKENS: Final = tuple(4**power for power in range(14))
_DURATIONS_S: Final = tuple(0.01 * 2**power for power in range(14))
_FIRST_TOKENS_S: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
)  # fmt: skip
_PACES_S: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)


class GenAiMetrics:
    """The histograms of one server; ``provider`` exports them.

    Their attributes are ``gen_ai.operation.name`` (``generate_content``: the desk does not tell chats from other
    requests), ``gen_ai.provider.name``, ``gen_ai.request.model`` and ``headway.class``; ``error.type`` is the outcome
    of a request that did not complete.
    """

    def __init__(self, model: str, provider: Any) -> None:
        self._provider = provider
        self._common = {
            "gen_ai.operation.name": "generate_content",
            "gen_ai.provider.name": "vllm",
            "gen_ai.request.model": model,
        }
        meter = provider.get_meter("headway")

        def histogram(name: str, unit: str, bounds: tuple[float, ...]) -> Any:
            return meter.create_histogram(name, unit, explicit_bucket_boundaries_advisory=bounds)

        self._tokens = histogram("gen_ai.client.token.usage", "{token}", _TOKENS)
        self._duration = histogram("gen_ai.server.request.duration", "s", _DURATIONS_S)
        self._first_token = histogram("gen_ai.server.time_to_first_token", "s", _FIRST_TOKENS_S)
        self._pace = histogram("gen_ai.server.time_per_output_token", "s", _PACES_S)

    def ended(self, ended: EndedRequest) -> None:
        """A request ended, however it did."""
        attributes = {**self._common, "headway.class": ended.class_name}
        if ended.usage is not None:
            for kind, tokens in (("input", ended.usage.prompt_tokens), ("output", ended.usage.output_tokens)):
                self._tokens.record(tokens, {**attributes, "gen_ai.token.type": kind})
        if ended.first_token_s is not None:
            self._first_token.record(ended.first_token_s, attributes)
        if ended.pace_s > 0:
            self._pace.record(ended.pace_s, attributes)
        failed = {} if ended.outcome is Outcome.COMPLETED else {"error.type": ended.outcome.value}
        self._duration.record(ended.total_s, attributes | failed)

    def close(self) -> None:
        """Export what is left, for a moment at most, and stop: the process ends."""
        atexit.unregister(self.close)
        self._provider.shutdown(timeout_millis=_AT_EXIT_MS)


def gen_ai_metrics(model: str, environment: Mapping[str, str] = os.environ) -> GenAiMetrics | None:
    """The metrics of a server of this model, where an endpoint is set and OpenTelemetry is installed; else None."""
    if not environment.get(ENDPOINT):
        return None
    protocol = next((value for name in _PROTOCOLS if (value := environment.get(name))), "http/protobuf")
    try:
        sdk = importlib.import_module("opentelemetry.sdk.metrics")
        export = importlib.import_module("opentelemetry.sdk.metrics.export")
        exporter = importlib.import_module(_EXPORTER.format("grpc" if protocol == "grpc" else "http"))
        reader = export.PeriodicExportingMetricReader(exporter.OTLPMetricExporter())
        metrics = GenAiMetrics(model, sdk.MeterProvider([reader], shutdown_on_exit=False))
    except Exception as error:  # not installed, another version, or a variable of its own that is wrong
        log.warning("%s is set, but no metrics are exported: %s", ENDPOINT, error)
        return None
    atexit.register(metrics.close)
    return metrics
