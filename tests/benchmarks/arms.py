"""The presets that the benchmarks compare, and the simulator runs of one preset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway_policies import Preset
from headway_simulator import EngineModel, Request, Slo, Summary, simulate, summarise

MODEL = EngineModel()
SLO = Slo(ttft_s=1.0, inter_token_s=0.075)

Table = dict[str, Any]


def arm(
    name: str,
    *,
    batching: Table,
    ordering: Table | None = None,
    limit: Table | None = None,
    queue: Table | None = None,
    classes: dict[str, Table] | None = None,
) -> Preset:
    """A preset of two classes. A part that is not given is the simplest one, and never refuses a request."""
    endless = {"max_waiting": 1_000_000}
    usual = {"realtime": {"priority": 2}, "normal": {"priority": 1}}
    return Preset.model_validate(
        {
            "name": name,
            "default_class": "normal",
            "batching": {"window_ms": 50, **batching},
            "ordering": {"between": "strict", "inside": "fifo", **(ordering or {})},
            "limit": limit or {},
            "queue": {**endless, "refuse_infeasible": False, "shed_unreachable": False, **(queue or {})},
            "classes": {name: {**endless, **terms} for name, terms in (classes or usual).items()},
        }
    )


def run(requests: Sequence[Request], preset: Preset, model: EngineModel = MODEL, **options: Any) -> Summary:
    """The summary of a closed run to its end."""
    return summarise(preset.name, simulate(requests, preset, model, **options), SLO)


def run_open(
    requests: Sequence[Request], preset: Preset, span_s: float, model: EngineModel = MODEL, **options: Any
) -> Summary:
    """The summary of an open-loop run; the first 30 s do not count."""
    return summarise(preset.name, simulate(requests, preset, model, **options), SLO, warmup_s=30, span_s=span_s)
