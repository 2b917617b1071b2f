"""Putting an engine behind the gate: inside the server, or in a user's own program.

engine = headway.wrap(AsyncLLMEngine.from_engine_args(args), preset="balanced")
async for out in engine.generate(prompt, params, request_id, priority="realtime", tenant="a", timeout_s=20):
    ...
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from headway.catalogue import Catalogue
from headway.client import make_policy_class
from headway.control import Control
from headway.engine import Engine, Kind, PlainKind
from headway.gate import Gate, Meter
from headway.guard import Guard
from headway.warmup_report import WarmupReport
from headway_policies import Preset

AnyEngine = TypeVar("AnyEngine", bound=Engine)


def wrap(engine: AnyEngine, preset: str | Path | Preset = "balanced") -> AnyEngine:
    """Lead every request of this engine through a gate, and return the same engine.

    ``preset`` is a bundled name, a TOML file or a ``Preset``. ``engine.headway`` is the control room afterwards:
    ``status()``, ``await switch(...)``. Raises PresetError or UnknownPresetError before anything has changed.
    """
    catalogue = Catalogue()
    chosen = catalogue.include(preset) if isinstance(preset, Preset) else catalogue.resolve(str(preset))
    control = install(engine, kind_of(engine), chosen, catalogue)
    control.warmup = WarmupReport(state="skipped")
    return engine


def kind_of(engine: Any) -> Kind:
    """The kind of an engine: vLLM's, or plain."""
    if any(base.__module__.partition(".")[0] == "vllm" for base in type(engine).__mro__):
        from headway.vllm_adapter.kind import VllmKind

        return VllmKind()
    return PlainKind()


def install(engine: Any, kind: Kind, preset: Preset, catalogue: Catalogue, *, meter: Meter | None = None) -> Control:
    """Make an engine a policy client in place; its control room is returned and also stands at ``engine.headway``."""
    if hasattr(engine, "headway"):
        raise ValueError("this engine is behind a Headway gate already")
    gate = Gate(preset, ceiling=kind.engine_seats(engine), meter=meter)
    guard = Guard(gate, kind, engine)
    control = Control(guard, catalogue)
    engine.__class__ = make_policy_class(type(engine), guard)
    engine.headway = control
    kind.listen(engine, control)
    return control
