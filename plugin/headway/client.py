"""The policy client: an engine's own client, with every request led through the guard.

The instance keeps its identity and gains a subclass (``__class__`` is assigned), so everything else of it works as
before and ``isinstance`` still holds: vLLM's handlers captured the very object. Composition was tried as well and
fails where vLLM asserts the type (``/abort_requests``).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from headway.errors import Refused
from headway.guard import TRIP, Guard, Trip

_OWN_OPTIONS = ("tenant", "timeout_s")


def make_policy_class(base: type[Any], guard: Guard) -> type[Any]:
    """A subclass of an engine client's class whose requests pass the guard."""

    class PolicyClient(base):  # type: ignore[misc]  # the base is only known at run time
        """An engine client behind Headway's gate."""

        def check_admission(self, n: int = 1, request_id: str | None = None) -> None:
            """Before rendering, reserve; later, inside the engine, only vLLM's own check."""
            trip = TRIP.get()
            if request_id is None and trip is not None and not trip.bypass:
                try:
                    guard.reserve(trip, n)
                except Refused as refused:
                    raise guard.kind.error(refused) from None
            super().check_admission(n, request_id)

        def generate(
            self, prompt: Any, sampling_params: Any, request_id: str, **options: Any
        ) -> AsyncGenerator[Any, None]:
            """As the engine's own, with ``priority`` (class name, or number: larger = more urgent), ``tenant`` and
            ``timeout_s``. Raises Refused, UnknownClassError."""
            trip, own = _journeys(guard, options)

            def start(call_id: str, rank: int) -> AsyncGenerator[Any, None]:
                stream: AsyncGenerator[Any, None] = super(PolicyClient, self).generate(
                    prompt, sampling_params, call_id, priority=rank, **options
                )
                return stream

            if own.bypass:
                return start(request_id, 0)
            return guard.carry(trip, request_id, guard.kind.seats(sampling_params), start, own)

        def encode(
            self, prompt: Any, pooling_params: Any, request_id: str, **options: Any
        ) -> AsyncGenerator[Any, None]:
            """Pooling requests pass the same gate; one call is one seat."""
            trip, own = _journeys(guard, options)

            def start(call_id: str, rank: int) -> AsyncGenerator[Any, None]:
                stream: AsyncGenerator[Any, None] = super(PolicyClient, self).encode(
                    prompt, pooling_params, call_id, priority=rank, **options
                )
                return stream

            if own.bypass:
                return start(request_id, 0)
            return guard.carry(trip, request_id, 1, start, own)

        @property
        def errored(self) -> bool:
            """As the engine's own; whoever asks first has the gate told."""
            dead = bool(super().errored)
            if dead:
                guard.engine_died()
            return dead

        def shutdown(self, timeout: float | None = None) -> None:
            """Refuse everybody waiting first; called from any thread, and more than once."""
            guard.close_from_any_thread()
            super().shutdown(timeout=timeout)
            guard.closed_from_any_thread()

    PolicyClient.__name__ = PolicyClient.__qualname__ = f"Policy{base.__name__}"
    return PolicyClient


def _journeys(guard: Guard, options: dict[str, Any]) -> tuple[Trip | None, Trip]:
    """The trip of the HTTP request around this call, if any, and the one to use; Headway's options leave the rest."""
    priority = options.pop("priority", None)
    tenant, timeout_s = (options.pop(name, None) for name in _OWN_OPTIONS)
    trip = TRIP.get()
    if trip is not None:
        return trip, trip
    return None, Trip(guard.class_of(priority), tenant or "", timeout_s)
