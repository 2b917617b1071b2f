"""Installation of Headway in front of an engine: its client becomes a policy client, in place."""

from __future__ import annotations

from typing import Any

from headway.admission import Gate, Gateway, Meter, make_policy_class
from headway.engine import EngineAdapter
from headway.operator.control import Control
from headway.operator.presets import PresetCatalogue
from headway_policies import Preset


def install(
    engine: Any, adapter: EngineAdapter, preset: Preset, catalogue: PresetCatalogue, *, meter: Meter | None = None
) -> Control:
    """Make an engine a policy client in place; its control room is returned and also stands at ``engine.headway``."""
    if hasattr(engine, "headway"):
        raise ValueError("this engine is behind a Headway gate already")
    gate = Gate(preset, ceiling=adapter.engine_seats(engine), meter=meter)
    gateway = Gateway(gate, adapter, engine)
    control = Control(gateway, catalogue)
    engine.__class__ = make_policy_class(type(engine), gateway)
    engine.headway = control
    adapter.listen(engine, control)
    return control
