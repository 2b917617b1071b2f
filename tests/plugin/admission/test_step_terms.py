"""The step policy of a preset on its way to the engine."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from engines import ServingEngine, installed
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

from headway.audit import Caller
from headway.engine.fake import FakeParams
from headway.engine.port import PlainAdapter
from headway.operator.control import Control
from headway_policies.step import StepSettings, StepTerms

SHAPED = small_preset(2, classes={"normal": terms(2, inter_token_slo_ms=50, ttft_slo_s="6x")}).model_copy(
    update={"name": "shaped", "step": StepSettings(prefill_share="auto")}
)


class Shaping(PlainAdapter):
    """Keeps what it is asked."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[StepTerms | None] = []
        self.error = error

    async def shape_steps(self, engine: Any, terms: StepTerms | None) -> None:
        self.asked.append(terms)
        if self.error is not None:
            raise self.error


async def begun(adapter: Shaping) -> Control:
    """A control room whose engine has had its first request."""
    engine: Any = ServingEngine()
    control, _ = installed(engine, SHAPED, adapter=adapter)
    async for _ in engine.generate("prompt", FakeParams(1), "a"):
        pass
    return control


@on_virtual_time
async def test_the_engine_gets_the_terms_and_is_told_when_they_go() -> None:
    """At the first request, and at a switch to a preset with vLLM's own steps; then it is left alone."""
    adapter = Shaping()
    control = await begun(adapter)
    assert adapter.asked == [StepTerms("auto", 50.0, {0: "6x"})]
    for revision, name in enumerate(("unshaped", "unshaped as well"), start=1):
        control.catalogue.include(SHAPED.model_copy(update={"name": name, "step": StepSettings(prefill_share="off")}))
        await control.switch(name, expected_revision=revision, caller=Caller())
    assert adapter.asked[1:] == [None]


@on_virtual_time
async def test_another_engine_gets_them_again() -> None:
    """Another engine begins without any."""
    adapter = Shaping()
    control = await begun(adapter)
    await control.gateway.link.limit_engine()
    assert adapter.asked == [StepTerms("auto", 50.0, {0: "6x"})] * 2


@on_virtual_time
async def test_an_engine_that_will_not_take_them_serves_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    """One warning is logged."""
    with caplog.at_level(logging.WARNING, "headway.admission.engine_link"):
        control = await begun(Shaping(RuntimeError("no such method")))
    assert [record.getMessage() for record in caplog.records] == [
        "the engine has not confirmed its step policy: no such method"
    ]
    assert control.gateway.link.limit_confirmed
