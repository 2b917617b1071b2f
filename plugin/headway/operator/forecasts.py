"""Forecasts of one server: the presets that are asked for, its recent traffic, and the model of its engine as it runs.

The model is what the server has fitted from its own steps, with the KV space that the engine reports: nothing is sent
to the engine for it. Its speed varies as far, and for as long at a time, as that of the engine did while the traffic
arrived (``recorder.speed``): in each replay another way, so an unsteady engine has wider intervals.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from headway.admission import Gate
from headway.api.schema import EngineEstimate, Forecast, PresetForecast
from headway.engine import EngineSettings
from headway.forecast import (
    MOST_SEQUENCES,
    WITHIN_S,
    Forecaster,
    ForecastError,
    Forecasts,
    Job,
    share_of,
)
from headway.operator.presets import PresetCatalogue
from headway.recorder import Recorder
from headway.supervision import EngineActivity
from headway_policies import Preset, PresetError, parse_preset
from headway_policies.limits import StepTime
from headway_simulator import EngineModel, Variation

SEEDS = 3
_SOURCE = "toml"
_MAX_SEQUENCES = 65_536
#: How long the last forecast of a preset is known.
KEPT_S = 1800.0


class PresetForecasts:
    """Makes the forecasts of one server. Call it on the event loop's thread only."""

    def __init__(
        self,
        gate: Gate,
        catalogue: PresetCatalogue,
        recorder: Recorder,
        activity: EngineActivity,
        settings: EngineSettings,
        forecaster: Forecaster,
    ) -> None:
        self._gate = gate
        self._catalogue = catalogue
        self._recorder = recorder
        self._activity = activity
        self._settings = settings
        self._forecaster = forecaster
        self._made: dict[str, tuple[float, Preset, PresetForecast]] = {}  # the last one of each name, with its time

    @property
    def done(self) -> float | None:
        """The part of the present forecast that is done; None while none is computed."""
        return self._forecaster.done

    def known(self, names: Sequence[str] | None) -> list[Preset]:
        """The presets of these names, or all. Raises UnknownPresetError."""
        if names is None:
            return [entry.preset for entry in self._catalogue]
        return [self._catalogue.get(name) for name in dict.fromkeys(names)]

    async def of(self, presets: Sequence[Preset], within_s: float = WITHIN_S, span_s: float | None = None) -> Forecast:
        """The forecast of these presets for the traffic of the last ``span_s`` seconds, None: of half an hour.

        Raises ForecastError or BusyError.
        """
        job, desk = self.job(presets, span_s), self._gate.desk
        current, error_ratio = desk.preset.name, desk.engine_fit.error_ratio
        assert error_ratio is not None
        model, done = job.model, await self.compute(job, within_s)
        return Forecast(
            current=current,
            span_s=done.span_s,
            requests=done.requests,
            seeds=done.seeds,
            engine=EngineEstimate(
                base_s=model.base_s,
                sequence_s=model.seat_s,
                prompt_token_s=model.prefill_s,
                kv_tokens=model.kv_tokens,
                error_ratio=error_ratio,
            ),
            presets=list(done.presets),
        )

    def job(self, presets: Sequence[Preset], span_s: float | None = None) -> Job:
        """The traffic and the engine as they are now, to be replayed later. Raises ForecastError."""
        if self._gate.desk.engine_fit.error_ratio is None:
            raise ForecastError("the engine's step time is not known yet: too few requests have run")
        now_s = self._gate.now_s()
        recording = self._recorder.recording(now_s, span_s, MOST_SEQUENCES + 1)
        share = share_of(len(os.sched_getaffinity(0)), busy=self._gate.desk.seats_taken > 0)
        return Job(recording, self._model(now_s - recording.span_s), presets, SEEDS, share)

    async def compute(self, job: Job, within_s: float = WITHIN_S) -> Forecasts:
        """The forecasts of a job, which ``recent`` knows from then on. Raises ForecastError or BusyError."""
        found, now_s = await self._forecaster.compute(job, within_s), job.recording.now_s
        named = {preset.name: preset for preset in job.presets}
        self._made = {name: made for name, made in self._made.items() if now_s - made[0] <= KEPT_S}
        for preset in found.presets:
            self._made[preset.name] = now_s, named[preset.name], preset
        return found

    def recent(self, preset: Preset, within_s: float) -> PresetForecast | None:
        """The last forecast of exactly this preset, where it is not older."""
        made_s, of, forecast = self._made.get(preset.name, (-inf, None, None))
        return forecast if of == preset and self._gate.now_s() - made_s <= within_s else None

    def made(self, within_s: float) -> list[tuple[Preset, PresetForecast]]:
        """The last forecast of each preset that can be switched to, as it is now, where it is not older."""
        since_s, known = self._gate.now_s() - within_s, {entry.preset.name: entry.preset for entry in self._catalogue}
        return [(of, found) for at_s, of, found in self._made.values() if at_s >= since_s and known.get(of.name) == of]

    def _model(self, since_s: float) -> EngineModel:
        """The engine as fitted, with its unsteadiness since then, and the model's defaults for unknown figures."""
        costs, ceiling = self._gate.desk.engine_fit.step_costs, self._gate.desk.ceiling
        given: dict[str, Any] = {
            "step_tokens": self._settings.step_tokens,
            "max_num_seqs": ceiling or _MAX_SEQUENCES,
            "kv_tokens": self._activity.load.kv_capacity_tokens,
        }
        known = {name: value for name, value in given.items() if value}
        return EngineModel(
            base_s=costs.base_s,
            seat_s=costs.sequence_s,
            prefill_s=costs.prefill_token_s,
            order="priority",
            variation=self._variation(costs, since_s),
            **known,
        )

    def _variation(self, costs: StepTime, since_s: float) -> Variation | None:
        """The unsteadiness as a jitter; not one of each step, which would be averaged out, and cost a replay more."""
        seen = self._recorder.speed.unsteadiness(costs, since_s)
        return Variation(jitter_ratio=seen.ratio, jitter_hold_s=seen.hold_s) if seen.ratio else None


def unsaved_preset(text: str) -> Preset:
    """A preset that is saved nowhere. Raises PresetError.

    The preset may extend a bundled one, no file, and name no custom policy: the right to a forecast is none to read
    files or to import modules on the server.
    """
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PresetError(f"{_SOURCE}: not valid TOML: {str(error)[:200]}") from None
    parent = table.get("extends", "")
    if not isinstance(parent, str) or "/" in parent or parent.endswith(".toml"):
        raise PresetError(f"{_SOURCE}: extends: only a bundled preset may be extended here")
    if any(":" in value for value in _words(table)):
        raise PresetError(f"{_SOURCE}: a policy of your own is possible in the preset files of the server only")
    return parse_preset(text, _SOURCE)


def _words(table: Mapping[str, Any]) -> list[str]:
    """The values that may name a policy."""
    found = list[str]()
    for section in ("limit", "ordering", "batching"):
        own = table.get(section)
        if isinstance(own, Mapping):
            found += [value for value in own.values() if isinstance(value, str)]
    return found
