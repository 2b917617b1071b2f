"""How true forecasts were: after a switch, what was forecast for the preset against what then came.

A switch to a preset that was forecast lately is followed for a while; other switches are forecast at once, from the
traffic before them, in the background. A forecast is of the traffic that was: where it changes after the switch the
error counts that too. The comparison is of means of a stretch of time and quantiles of the same class; another change
of the preset, an undo among them, ends it early, with what has come until then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from statistics import median

from headway.admission import Gate
from headway.api import schema
from headway.api.schema import Interval, PresetForecast
from headway.background_tasks import BackgroundTasks
from headway.errors import HeadwayError
from headway.forecast import ForecastError
from headway.operator.forecast_check import checked
from headway.operator.forecasts import KEPT_S, PresetForecasts
from headway.recorder import ServedLog
from headway.supervision import EngineActivity
from headway.supervision.engine_activity import Batches
from headway_policies import AdmissionState, Preset
from headway_policies.trial import ALL, Served

TASK = "forecast check"
#: The first seconds after a switch are of both presets; then so many are compared.
SETTLE_S, COMPARED_S = 20.0, 100.0
#: The shortest time of a comparison, where another switch ends it, and of a check; a check is of the last minute, and
#: holds for some seconds: it takes a millisecond or two.
LEAST_S, CHECKED_S, CHECK_EVERY_S = 20.0, 60.0, 5.0
#: With fewer first tokens than these a quantile is chance.
MIN_FIRST_TOKENS = 30
#: How old a forecast may be that a switch is compared with.
MAX_AGE_S = 600.0
_MOST_UNANSWERED = 2000
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


@dataclass(frozen=True, slots=True)
class _Followed:
    """A switch that is followed since ``since_s``, when both presets had settled."""

    preset: str
    revision: int
    forecast: PresetForecast
    since_s: float
    batches: Batches


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
        self._followed: _Followed | None = None
        self._settled_s = -inf
        self._check: schema.ForecastCheck | None = None
        self._next_check_s = -inf

    def switched(self, preset: Preset) -> None:
        """This preset has just been put in force."""
        self._compare()
        self._settled_s = self._next_check_s = self._gate.now_s() + SETTLE_S
        self._tasks.start(TASK, self._follow(preset, self._gate.desk.mode.revision))

    def stop(self) -> None:
        """Compare the last switch with nothing."""
        self._followed = None
        self._tasks.stop(TASK)

    def check(self) -> schema.ForecastCheck | None:
        """The last forecast of the preset in force against the last minute; None where either says too little."""
        desk, now_s = self._gate.desk, self._gate.now_s()
        since_s = max(self._settled_s, now_s - CHECKED_S)
        if now_s - since_s < LEAST_S or not desk.mode.engine_up or desk.mode.state is not AdmissionState.OPEN:
            return None
        if now_s >= self._next_check_s:
            self._next_check_s = now_s + CHECK_EVERY_S
            forecast = self._forecasts.recent(desk.preset, KEPT_S)
            self._check = None if forecast is None else self._checked(forecast, since_s, now_s)
        return self._check

    def error_ratios(self) -> dict[str, float]:
        """The median error of each of ``FIGURES`` over the comparisons that are kept; empty before the first."""
        found: dict[str, list[float]] = {}
        for comparison in self.comparisons:
            for name, ratio in comparison.error_ratios().items():
                if name in FIGURES:
                    found.setdefault(name, []).append(ratio)
        return {name: median(found[name]) for name in FIGURES if name in found}

    def report(self) -> schema.ForecastErrors:
        """The comparisons as operators see them, and the check of the preset in force."""
        ratios = {name: round(ratio, 4) for name, ratio in self.error_ratios().items()}
        return schema.ForecastErrors(comparisons=len(self.comparisons), error_ratio=ratios, in_force=self.check())

    # ------------------------------------------------------------------ inside

    def _checked(self, forecast: PresetForecast, since_s: float, now_s: float) -> schema.ForecastCheck | None:
        ended = self._served.ended_by_class(since_s, now_s)
        served = self._served.between(since_s, now_s, self._gate.unanswered(_MOST_UNANSWERED))
        return checked(forecast, served, ended, now_s - since_s)

    async def _follow(self, preset: Preset, revision: int) -> None:
        """Compare once the time is over; another switch ends this task, and compares what came until then."""
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
        self._followed = _Followed(preset.name, revision, forecast, from_s, batches)
        await asyncio.sleep(from_s + COMPARED_S - self._gate.now_s())
        self._compare()

    def _compare(self) -> None:
        """Keep the comparison of the switch that is followed, where enough has come of it."""
        followed, self._followed = self._followed, None
        if followed is None:
            return
        since_s, now_s = followed.since_s, self._gate.now_s()
        if now_s - since_s < LEAST_S or self._served.first_tokens(since_s) < MIN_FIRST_TOKENS:
            return
        served = self._served.between(since_s, now_s, arrived_s=since_s)
        said, came = _said(followed.forecast), _came(served, self._activity.batches.mean_since(followed.batches))
        both = said.keys() & came.keys()
        forecast, measured = ({name: figures[name] for name in both} for figures in (said, came))
        self.comparisons.append(Comparison(followed.preset, followed.revision, forecast, measured))


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
