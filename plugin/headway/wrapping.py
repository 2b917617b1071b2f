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

from prometheus_client import CollectorRegistry

from headway.engine import EngineAdapter, PlainAdapter
from headway.engine_service import EngineService
from headway.fallback import OtherEngine
from headway.operator import Control, PresetCatalogue
from headway.supervision import EngineFactory, FactoryReplacer, Replacer
from headway.warmup import OneRequest, Source, StartRequest
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
        """Run a request as the engine's own method; of a number as ``priority`` a larger one is more urgent.

        ``priority`` may be a class name. ``timeout_s`` bounds the whole request, ``timeouts`` each stage of it, in
        seconds; without ``may_wait`` the request is refused where no seat is free. Raises UnknownClassError at the
        first step of the iteration, Refused at any.
        """
        ...

    def __getattr__(self, name: str) -> Any:
        """Any other attribute of the engine."""
        ...


def wrap(
    engine: object,
    preset: str | Path | Preset = "balanced",
    *,
    warmup: bool | StartRequest = False,
    fallback: object | None = None,
    engine_factory: EngineFactory | None = None,
    registry: CollectorRegistry | None = None,
) -> WrappedEngine:
    """Lead every request of this engine through a gate, and return the same engine.

    ``preset`` is a bundled name, a TOML file or a ``Preset``. ``engine.headway`` is the ``headway.Control`` afterwards:
    ``status()``, ``await switch(...)``, ``await warm_up()``. The engine is watched, and what the preset says of
    recovery, memory and the fallback ladder acts, from the first request to ``engine.shutdown()``.

    ``warmup``: the first requests wait for a warm-up; for an engine that is not vLLM's, a function that starts one
    request under the id it is given. ``fallback``: another engine, or a function like its ``generate``, for requests
    that the ladder diverts. ``engine_factory`` makes an engine in the place of one that died; vLLM's are replaced
    without it. ``registry``: where Headway's metrics are shown.

    Raises TypeError where it is no engine or an argument is of the wrong kind, ValueError where it is wrapped already,
    ``warmup=True`` lacks requests or ``registry`` has metrics of another engine, PresetError or UnknownPresetError for
    the preset: before anything has changed.
    """
    _check_engine(engine)
    catalogue = PresetCatalogue()
    chosen = catalogue.include(preset) if isinstance(preset, Preset) else catalogue.resolve(str(preset))
    adapter, is_vllm = adapter_of(engine), _is_vllm(engine)
    replacer, factory = _replacer(engine, engine_factory, is_vllm=is_vllm)
    other = None if fallback is None else OtherEngine(fallback)
    source = _source(engine, warmup, is_vllm=is_vllm)
    if registry is not None and not isinstance(registry, CollectorRegistry):
        raise TypeError(f"registry= takes a prometheus_client.CollectorRegistry, not {type(registry).__name__}")
    service = EngineService(
        engine,
        adapter,
        chosen,
        catalogue,
        registry=registry,
        source=source,
        warm_up=bool(warmup),
        replacer=replacer,
        other_model=other,
        owns_process=False,
    )
    if factory is not None:
        factory.replaced = lambda: adapter.listen(engine, service.parts.activity)
    service.begin_with_first_request()
    return cast("WrappedEngine", engine)


def _check_engine(engine: object) -> None:
    """Raise TypeError, which says what is missing, where this is no engine that can be wrapped."""
    takes = "headway.wrap takes an engine, such as an AsyncLLM of vLLM or a headway.engine.fake.FakeEngine"
    if isinstance(engine, type):
        raise TypeError(f"{takes}: {engine.__name__} is a class; give an instance of it")
    if inspect.iscoroutine(engine):
        engine.close()  # it will not be awaited, and would warn of that
        raise TypeError(f"{takes}: this is a coroutine; await it first")
    missing = [name for name in ("generate", "abort", "errored") if not hasattr(engine, name)]
    if missing:
        raise TypeError(f"{takes}: {type(engine).__name__} lacks {', '.join(missing)}")


def adapter_of(engine: Any) -> EngineAdapter:
    """The adapter of an engine: vLLM's, or a plain one."""
    if _is_vllm(engine):
        from headway.vllm_adapter.engine_adapter import VllmAdapter

        return VllmAdapter()
    return PlainAdapter()


def _is_vllm(engine: object) -> bool:
    return any(base.__module__.partition(".")[0] == "vllm" for base in type(engine).__mro__)


def _replacer(
    engine: object, factory: EngineFactory | None, *, is_vllm: bool
) -> tuple[Replacer | None, FactoryReplacer | None]:
    """The starter of another engine in the place of a dead one, or None; and the factory's, where that is it."""
    if factory is not None:
        by_factory = FactoryReplacer(engine, factory)
        return by_factory, by_factory
    if is_vllm:
        from headway.vllm_adapter.process.engine_replacer import VllmReplacer, replaceable

        return (VllmReplacer(engine, owns_process=False) if replaceable(engine) else None), None
    return None, None


def _source(engine: object, warmup: bool | StartRequest, *, is_vllm: bool) -> Source | None:
    """The source of the requests of a warm-up. Raises TypeError or ValueError."""
    if not isinstance(warmup, bool):
        if not callable(warmup):
            raise TypeError(f"warmup= takes True or a function that starts a request, not {type(warmup).__name__}")
        return OneRequest(warmup)
    if is_vllm:
        from headway.vllm_adapter.warmup_requests import WarmupRequests

        return WarmupRequests(engine)
    if warmup:
        raise ValueError(
            f"warmup=True: nothing is known of the requests that {type(engine).__name__} takes; give a function that "
            "starts one: warmup=lambda request_id: engine.generate(prompt, params, request_id)"
        )
    return None
