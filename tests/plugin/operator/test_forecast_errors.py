"""What was forecast for a switch against what came after it, on virtual time; the forecaster is told its answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engines import ServingEngine, installed
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.api import schema
from headway.api.schema import ClassForecast, Interval, PresetForecast, Quantiles
from headway.audit import Caller
from headway.engine.fake import FakeParams
from headway.forecast import ForecastError
from headway.operator.control import Control
from headway.operator.forecast_errors import CHECK_EVERY_S, COMPARED_S, LEAST_S, SETTLE_S
from headway_policies import Load

ME = Caller("ann", "operator")


def interval(value: float) -> Interval:
    return Interval(value=value, low=value, high=value)


def forecast(name: str, tokens_per_s: float, mean_batch: float, ttft_s: float) -> PresetForecast:
    """One with these figures; the class normal is all there is."""
    one = ClassForecast(
        offered=1,
        completed_ratio=interval(1),
        refused_ratio=interval(0),
        timed_out_ratio=interval(0),
        ttft_s=Quantiles(p50=interval(ttft_s), p95=interval(ttft_s)),
        inter_token_s=Quantiles(),
    )
    tokens, batch = interval(tokens_per_s), interval(mean_batch)
    return PresetForecast(
        name=name, tokens_per_s=tokens, mean_batch=batch, all=one, classes={"normal": one, "batch": one}
    )


class Told:
    """A forecaster that answers what it was told, or refuses."""

    def __init__(self, answer: PresetForecast | Exception, lately: PresetForecast | None = None) -> None:
        self.answer, self.asked = answer, 0
        self.lately = lately

    def recent(self, *_: Any) -> PresetForecast | None:
        """What was forecast before; at first nothing."""
        return self.lately

    def job(self, presets: Any) -> Any:
        """What is to be replayed."""
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def compute(self, job: Any) -> Any:
        """The answer."""
        return type("", (), {"presets": [job]})


def served(told: Told) -> Control:
    """An engine behind the gate that reports its steps; two presets."""
    control, parts = installed(ServingEngine(), small_preset(4))
    control.catalogue.include(small_preset(8, name="wide"))
    control.forecast_errors._forecasts = told  # type: ignore[assignment]  # a stand-in
    engine = control.gateway.link.engine
    engine.step_s = 0.05

    async def report() -> None:
        while True:
            await asyncio.sleep(0.05)
            parts.activity.step(Load(len(engine.running), 0, 0.1), len(engine.running), [])

    asyncio.get_running_loop().reporting = asyncio.create_task(report())  # type: ignore[attr-defined]  # kept alive
    return control


async def traffic(control: Control, seconds: float, every_s: float = 0.5) -> None:
    """A request of 8 tokens, 0.4 s, every half a second: 16 tokens/s, and one sequence at a time while any runs."""
    calls = []

    async def call(number: int) -> None:
        async for _ in control.gateway.link.engine.generate("hello", FakeParams(8), f"r{control.revision}-{number}"):
            pass

    for number in range(int(seconds / every_s)):
        calls.append(asyncio.create_task(call(number)))
        await asyncio.sleep(every_s)
    await asyncio.gather(*calls)


async def switch(control: Control, name: str) -> None:
    await control.switch(name, expected_revision=None, caller=ME)


@on_virtual_time
async def test_the_error_of_a_forecast_is_kept() -> None:
    """Of each figure that both know; shown by the status. A class of which nothing came is left out."""
    control = served(Told(forecast("wide", 17.6, 1.5, 0.02)))
    await switch(control, "wide")
    await traffic(control, SETTLE_S + COMPARED_S + 5)
    (found,) = control.forecast_errors.comparisons
    assert (found.preset, found.revision) == ("wide", 2)
    assert found.came["tokens_per_s"] == pytest.approx(16.0, rel=0.03)
    assert found.came["mean_batch"] == pytest.approx(1.0, rel=0.05)
    assert found.forecast["normal.ttft_p50_s"] == 0.02
    assert "batch.ttft_p50_s" not in found.forecast
    errors = control.status().forecast
    assert errors.comparisons == 1
    assert errors.error_ratio["tokens_per_s"] == pytest.approx(0.1, abs=0.03)
    assert errors.error_ratio["mean_batch"] == pytest.approx(0.5, abs=0.08)
    assert set(errors.error_ratio) == {"tokens_per_s", "mean_batch", "ttft_p50_s", "ttft_p95_s"}


@on_virtual_time
async def test_another_switch_ends_the_comparison() -> None:
    """The figures would be of two presets."""
    told = Told(forecast("wide", 17.6, 1.5, 0.02))
    control = served(told)
    await switch(control, "wide")
    await traffic(control, SETTLE_S + 10)
    await switch(control, "small")
    told.answer = forecast("small", 16.0, 1.0, 0.01)
    await traffic(control, SETTLE_S + COMPARED_S + 5)
    assert [comparison.preset for comparison in control.forecast_errors.comparisons] == ["small"]


@on_virtual_time
async def test_an_undo_keeps_the_comparison_that_it_ends() -> None:
    """What came of the preset that was tried stands beside its forecast, although the undo came early."""
    control = served(Told(forecast("wide", 17.6, 1.5, 0.02)))
    await switch(control, "wide")
    await traffic(control, SETTLE_S + LEAST_S + 5)
    await control.undo(expected_revision=None, caller=ME)
    (found,) = control.forecast_errors.comparisons
    assert (found.preset, found.revision) == ("wide", 2)
    assert found.came["tokens_per_s"] == pytest.approx(16.0, rel=0.05)
    assert control.status().forecast.comparisons == 1


@on_virtual_time
async def test_the_forecast_of_the_preset_in_force_is_checked_all_the_time() -> None:
    """It agrees, then it does not; not while dispatch is paused, and not right after a switch."""
    told = Told(ForecastError("too early"), lately=forecast("small", 16.0, 1.0, 0.02))
    control = served(told)
    assert control.status().forecast.in_force is None
    await traffic(control, 40.0)
    agreeing = control.status().forecast.in_force
    assert agreeing is not None
    assert (agreeing.preset, agreeing.differs) == ("small", [])
    told.lately = forecast("small", 16.0, 1.0, 5.0)
    await asyncio.sleep(CHECK_EVERY_S)
    check = control.status().forecast.in_force
    assert check is not None
    assert "normal TTFT p95 5 s, measured " in check.sentence
    control.forecast_errors.switched(small_preset(4))
    assert control.status().forecast.in_force is None
    await traffic(control, SETTLE_S + LEAST_S + 5)
    assert control.status().forecast.in_force is not None
    control.admission.pause(caller=ME, reason="a check")
    assert control.status().forecast.in_force is None


@on_virtual_time
async def test_no_remedy_rests_on_forecasts_that_are_not_what_happens() -> None:
    """The diagnosis takes none of them for a fact."""
    told = Told(ForecastError("too early"), lately=forecast("small", 16.0, 1.0, 0.02))
    control = served(told)
    facts = control.diagnostics._reader
    object.__setattr__(facts, "forecasts", told)
    await traffic(control, 40.0)
    assert facts._forecast(control.preset) is not None
    told.lately = forecast("small", 16.0, 1.0, 5.0)
    await asyncio.sleep(CHECK_EVERY_S)
    assert facts._forecast(control.preset) is None


@on_virtual_time
async def test_a_few_requests_prove_nothing() -> None:
    """Nor does a server that can forecast nothing yet."""
    told = Told(forecast("wide", 17.6, 1.5, 0.02))
    control = served(told)
    await switch(control, "wide")
    await traffic(control, SETTLE_S + COMPARED_S + 5, every_s=10.0)
    told.answer = ForecastError("too early")
    await switch(control, "small")
    await traffic(control, SETTLE_S + COMPARED_S + 5)
    assert (list(control.forecast_errors.comparisons), told.asked) == ([], 2)
    assert control.status().forecast == schema.ForecastErrors()


@on_virtual_time
async def test_a_comparison_that_was_stopped_computes_nothing() -> None:
    """A benchmark switches before each block, and measures none of them beside a forecast."""
    told = Told(forecast("wide", 16.0, 1.0, 0.01))
    control = served(told)
    await control.switch("wide", expected_revision=None, caller=ME)
    control.forecast_errors.stop()
    await traffic(control, SETTLE_S + COMPARED_S + 5.0)
    assert not control.forecast_errors.comparisons
