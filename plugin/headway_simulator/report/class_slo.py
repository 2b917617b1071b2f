"""The objectives that a preset states for a class of requests.

Presets with different objectives cannot be compared by them: the longer ones are easier to keep. So goodput and the
ceiling are by those of one preset for all, and what another one states judges it beside that. Objectives that are
relative to the engine are those on the undisturbed model, with the mean prompt of the requests as the usual one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf

from headway_policies import Preset
from headway_policies.limits import Unloaded, resolved
from headway_policies.request import PriorityClass
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.run.visit import Visit
from headway_simulator.traffic.workload import Request


@dataclass(frozen=True, slots=True)
class ClassSlo:
    """The objectives of a class, in seconds; None for a missing objective, which cannot be missed.

    A prompt of more than ``usual_tokens`` has ``longer_token_s`` more for each of the others.
    """

    ttft_s: float | None
    inter_token_s: float | None
    longer_token_s: float = 0.0
    usual_tokens: float = 0.0

    def kept(self, visit: Visit) -> bool:
        """Whether a request was served to its end within what is stated."""
        longer_s = self.longer_token_s * max(0.0, visit.request.prompt_tokens - self.usual_tokens)
        return visit.within(_or_never(self.ttft_s) + longer_s, _or_never(self.inter_token_s))


def stated_by(preset: Preset | None, model: EngineModel, requests: Collection[Request]) -> Mapping[str, ClassSlo]:
    """The objectives of each class that states any, on this engine, for these requests; empty for the engine alone."""
    classes = {} if preset is None else preset.classes
    alone = unloaded_of(model)
    usual_tokens = sum(request.prompt_tokens for request in requests) / max(1, len(requests))
    stated = {name: _of_class(terms, alone, usual_tokens) for name, terms in classes.items()}
    return {name: slo for name, slo in stated.items() if (slo.ttft_s, slo.inter_token_s) != (None, None)}


def shortest(preset: Preset | None, model: EngineModel) -> Slo:
    """The shortest objectives that a preset states, or the usual one where it states none."""
    stated, usual = stated_by(preset, model, ()).values(), Slo()
    ttft_s = [slo.ttft_s for slo in stated if slo.ttft_s is not None]
    inter_token_s = [slo.inter_token_s for slo in stated if slo.inter_token_s is not None]
    return Slo(min(ttft_s, default=usual.ttft_s), min(inter_token_s, default=usual.inter_token_s))


def unloaded_of(model: EngineModel) -> Unloaded:
    """The undisturbed engine's costs for one request alone."""
    return Unloaded(model.base_s + model.seat_s, model.prefill_s)


def _of_class(terms: PriorityClass, alone: Unloaded, usual_tokens: float) -> ClassSlo:
    found = resolved(terms, alone, usual_tokens, usual_tokens)
    if not isinstance(terms.ttft_slo_s, str):
        return ClassSlo(found.ttft_s, found.inter_token_s)
    return ClassSlo(found.ttft_s, found.inter_token_s, alone.prefill_token_s, usual_tokens)


def _or_never(slo_s: float | None) -> float:
    return inf if slo_s is None else slo_s
