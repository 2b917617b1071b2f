"""Installation in a user's own program.

engine = headway.wrap(AsyncLLMEngine.from_engine_args(args), preset="balanced")
async for out in engine.generate(prompt, params, request_id, priority="realtime", tenant="a", timeout_s=20):
    ...
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Protocol, cast

from headway.engine import EngineAdapter, PlainAdapter
from headway.operator import Control, PresetCatalogue, install, prepare
from headway_policies import Preset, Timeouts


class WrappedEngine(Protocol):
    """An engine behind a gate, for type checkers: its own methods as they were, and Headway's terms of a request.

    At run time it is the same object as before, an instance of a subclass of its class.
    """

    headway: Control

    def generate(
        self,
        prompt: Any,
        sampling_params: Any,
        request_id: str,
        *,
        priority: str | int | None = ...,
        tenant: str = ...,
        timeout_s: float | None = ...,
        timeouts: Timeouts = ...,
        may_wait: bool = ...,
        **options: Any,
    ) -> AsyncGenerator[Any, None]:
        """As the engine's own; ``priority`` is a class name, or a number of which a larger one is more urgent.

        ``timeout_s`` bounds the whole request, ``timeouts`` each stage of it, in seconds; without ``may_wait`` it is
        refused where no seat is free. Raises UnknownClassError at the first step of the iteration, Refused at any.
        """
        ...

    def __getattr__(self, name: str) -> Any:
        """Everything else that the engine has."""
        ...


def wrap(engine: object, preset: str | Path | Preset = "balanced") -> WrappedEngine:
    """Lead every request of this engine through a gate, and return the same engine.

    ``preset`` is a bundled name, a TOML file or a ``Preset``. ``engine.headway`` is the ``headway.Control`` afterwards:
    ``status()``, ``await switch(...)``. Raises TypeError where it is no engine, ValueError where it is wrapped already,
    PresetError or UnknownPresetError for the preset: before anything has changed.
    """
    _check_engine(engine)
    catalogue = PresetCatalogue()
    chosen = catalogue.include(preset) if isinstance(preset, Preset) else catalogue.resolve(str(preset))
    install(prepare(engine, adapter_of(engine), chosen), catalogue)
    return cast("WrappedEngine", engine)


def _check_engine(engine: object) -> None:
    """Raises TypeError, which says what is missing, where this is no engine that can be wrapped."""
    takes = "headway.wrap takes an engine, such as an AsyncLLM of vLLM or a headway.engine.fake.FakeEngine"
    if isinstance(engine, type):
        raise TypeError(f"{takes}: {engine.__name__} is a class, of which it takes an instance")
    if inspect.iscoroutine(engine):
        engine.close()  # it will not be awaited, and would warn of that
        raise TypeError(f"{takes}: this is a coroutine; await it first")
    missing = [name for name in ("generate", "abort", "errored") if not hasattr(engine, name)]
    if missing:
        raise TypeError(f"{takes}: {type(engine).__name__} lacks {', '.join(missing)}")


def adapter_of(engine: Any) -> EngineAdapter:
    """The adapter of an engine: vLLM's, or a plain one."""
    if any(base.__module__.partition(".")[0] == "vllm" for base in type(engine).__mro__):
        from headway.vllm_adapter.engine_adapter import VllmAdapter

        return VllmAdapter()
    return PlainAdapter()
