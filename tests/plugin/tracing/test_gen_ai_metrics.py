"""The metrics ``gen_ai.*``, as a receiver of OTLP gets them."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from contextlib import suppress

import pytest
from engines import ServingEngine
from otlp_receiver import OtlpReceiver, otlp_receiver
from small_presets import small_preset
from until import until

from headway.engine.fake import FakeParams
from headway.engine.port import PlainAdapter
from headway.engine_service import EngineService
from headway.errors import Refused
from headway.operator import PresetCatalogue, ServerIdentity
from headway.tracing import gen_ai_metrics
from headway.tracing.gen_ai_metrics import ENDPOINT

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
NAMES = (
    "gen_ai.client.token.usage",
    "gen_ai.server.request.duration",
    "gen_ai.server.time_to_first_token",
    "gen_ai.server.time_per_output_token",
)


def points(receiver: OtlpReceiver, name: str) -> dict[str, tuple[int, float]]:
    """The count and the sum of each point, by its kind of token or its error."""
    found = {}
    for point in receiver.points(name):
        attributes = {one.key: one.value.string_value for one in point.attributes}
        assert attributes.pop("gen_ai.request.model") == "the model"
        assert attributes.pop("headway.class") == "normal"
        assert {*attributes} - {"gen_ai.token.type", "error.type"} == {"gen_ai.operation.name", "gen_ai.provider.name"}
        found[attributes.get("gen_ai.token.type", attributes.get("error.type", ""))] = (point.count, point.sum)
    return found


async def test_a_receiver_gets_the_tokens_and_times_of_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under their standard names; a refused request has a duration with its outcome as the error, and nothing more."""
    with otlp_receiver() as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.metrics_endpoint)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
        engine, catalogue = ServingEngine(step_s=0.01), PresetCatalogue()
        identity, preset = ServerIdentity("the model"), small_preset(2, most_waiting=1)
        service = EngineService(engine, PlainAdapter(), preset, catalogue, identity=identity)
        await service.serve()

        async def ask(name: str) -> None:
            with suppress(Refused):
                async for _ in engine.generate("four", FakeParams(5), name):
                    pass

        await asyncio.gather(*map(ask, "abcd"))
        await until(lambda: points(receiver, NAMES[1]).get("", (0, 0.0))[0] == 3)
        tokens, durations, first, paces = (points(receiver, name) for name in NAMES)
        service.parts.tasks.stop_all()
        assert service.exported is not None
        service.exported.close()
    assert tokens["output"] == (3, 15.0)
    assert tokens["input"][0] == 3
    assert (durations[""][0], durations["rejected_full"][0]) == (3, 1)
    assert (first[""][0], paces[""][0]) == (3, 3)
    assert 0 < paces[""][1] < first[""][1] < durations[""][1]


def test_without_an_endpoint_nothing_of_opentelemetry_is_loaded() -> None:
    """Nor is a metric recorded."""
    assert gen_ai_metrics("m", {}) is None
    loaded = "[name for name in sys.modules if name.startswith('opentelemetry.')]"
    program = f"import sys, headway.engine_service; assert not {loaded}"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_where_opentelemetry_is_not_installed_the_server_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It serves without these metrics."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics", None)
    with caplog.at_level(logging.WARNING):
        assert gen_ai_metrics("m", {ENDPOINT: "http://127.0.0.1:1/v1/metrics"}) is None
    assert ENDPOINT in caplog.text


def test_a_variable_that_opentelemetry_refuses_costs_the_metrics_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server starts all the same."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "0")
    with caplog.at_level(logging.WARNING):
        assert gen_ai_metrics("m", {ENDPOINT: "http://127.0.0.1:1/v1/metrics"}) is None
    assert ENDPOINT in caplog.text
