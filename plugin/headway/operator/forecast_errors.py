"""How true forecasts were: after a switch, what was forecast for the preset against what then came.

A switch to a preset that was forecast lately is followed for a while; other switches are forecast at once, from the
traffic before them, in the background. A forecast is of the traffic that was: where it changes after the switch the
error counts that too. The comparison is of means of a stretch of time and quantiles of the same class; another change
of the preset ends it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from headway.admission import Gate
from headway.api import schema
from headway.api.schema import Interval, PresetForecast
from headway.background_tasks import BackgroundTasks
from headway.errors import HeadwayError
from headway.forecast import ForecastError
from headway.operator.forecasts import PresetForecasts
from headway.recorder import ServedLog
from headway.supervision import EngineActivity
from headway_policies import Preset
from headway_policies.trial import ALL, Served

TASK = "forecast check"
#: The first seconds after a switch are of both presets; then so many are compared.
SETTLE_S, COMPARED_S = 20.0, 100.0
#: With fewer first tokens than these a quantile is chance.
MIN_FIRST_TOKENS = 30
#: How old a forecast may be that a switch is compared with.
MAX_AGE_S = 600.0
KEEP = 20
FIGURES = ("tokens_per_s", "mean_batch", "ttft_p50_s", "ttft_p95_s")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A switch: what was forecast and what came, by figure; only what is known of both.

    Quantiles of a class stand under ``class.figure``.
    """

    preset: str
    revision: int
    forecast: Mapping[str, float]
    came: Mapping[str, float]

    def error_ratios(self) -> dict[str, float]:
        """|forecast - came| / came."""
        came = self.came
        return {name: abs(value - came[name]) / came[name] for name, value in self.forecast.items() if came[name] > 0}


class ForecastErrors:
    """The comparisons of one server. Call it on the event loop's thread only."""

    def __init__(
        self,
        gate: Gate,
        served: ServedLog,
        activity: EngineActivity,
        forecasts: PresetForecasts,
        tasks: BackgroundTasks,
    ) -> None:
        self.comparisons: deque[Comparison] = deque(maxlen=KEEP)
        self._gate = gate
        self._served = served
        self._activity = activity
        self._forecasts = forecasts
        self._tasks = tasks

    def switched(self, preset: Preset) -> None:
        """This preset has just been put in force."""
        self._tasks.start(TASK, self._follow(preset, self._gate.desk.mode.revision))

    def stop(self) -> None:
        """Compare the last switch with nothing."""
        self._tasks.stop(TASK)

    def error_ratios(self) -> dict[str, float]:
        """The median error of each of ``FIGURES`` over the comparisons that are kept; empty before the first."""
        found: dict[str, list[float]] = {}
        for comparison in self.comparisons:
            for name, ratio in comparison.error_ratios().items():
                if name in FIGURES:
                    found.setdefault(name, []).append(ratio)
        return {name: median(found[name]) for name in FIGURES if name in found}

    def report(self) -> schema.ForecastErrors:
        """The comparisons as operators see them."""
        return schema.ForecastErrors(comparisons=len(self.comparisons), error_ratio=self.error_ratios())

    # ------------------------------------------------------------------ inside

    async def _follow(self, preset: Preset, revision: int) -> None:
        """Compare once the time is over; another switch ends this task."""
        forecast, job = self._forecasts.recent(preset, MAX_AGE_S), None
        if forecast is None:
            with suppress(ForecastError):
                job = self._forecasts.job([preset])
            if job is None:
                return
        await asyncio.sleep(SETTLE_S)
        from_s, batches = self._gate.now_s(), self._activity.batches
        if job is not None:  # of the traffic before the switch; not at once, for a switch that is soon changed again
            with suppress(HeadwayError):
                forecast = next(iter((await self._forecasts.compute(job)).presets), None)
        if forecast is None:
            return
        await asyncio.sleep(from_s + COMPARED_S - self._gate.now_s())
        if self._served.first_tokens(from_s) < MIN_FIRST_TOKENS:
            return
        served = self._served.between(from_s, self._gate.now_s(), arrived_s=from_s)
        said, came = _said(forecast), _came(served, self._activity.batches.mean_since(batches))
        both = said.keys() & came.keys()
        self.comparisons.append(
            Comparison(preset.name, revision, {name: said[name] for name in both}, {name: came[name] for name in both})
        )


def _said(forecast: PresetForecast) -> dict[str, float]:
    found = {"tokens_per_s": forecast.tokens_per_s, "mean_batch": forecast.mean_batch}
    intervals: dict[str, Interval | None] = dict(found)
    for prefix, figures in [("", forecast.all), *((f"{name}.", own) for name, own in forecast.classes.items())]:
        intervals |= {f"{prefix}ttft_p50_s": figures.ttft_s.p50, f"{prefix}ttft_p95_s": figures.ttft_s.p95}
    return {name: interval.value for name, interval in intervals.items() if interval is not None}


def _came(served: Mapping[str, Served], mean_batch: float | None) -> dict[str, float]:
    found = {"tokens_per_s": served[ALL].tokens_per_s, "mean_batch": mean_batch}
    for name, figures in served.items():
        prefix = "" if name == ALL else f"{name}."
        found |= {f"{prefix}ttft_p50_s": figures.ttft_p50_s, f"{prefix}ttft_p95_s": figures.ttft_p95_s}
    return {name: value for name, value in found.items() if value is not None}
