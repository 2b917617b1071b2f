"""The policy client: an engine's own client, with every request led through the guard.

The instance keeps its identity and gains a subclass (``__class__`` is assigned), so everything else of it works as
before and ``isinstance`` still holds: vLLM's handlers captured the very object. Composition was tried as well and
fails where vLLM asserts the type (``/abort_requests``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, ClassVar

from headway.errors import Refused
from headway.guard import TRIP, Guard, Trip
from headway.shortening import shortened
from headway_policies import Hold, Standing
from headway_policies.ticket import NO_TIMEOUTS, Timeouts


class PolicyClient:
    """What an engine client does differently behind Headway's gate.

    Never instantiated nor inherited from: these methods are set into a subclass of the engine's own class, because an
    instance can take on a subclass only if that has no second base. So they call that class by name, not ``super()``.
    """

    _headway_guard: ClassVar[Guard]
    _headway_base: ClassVar[Any]

    def check_admission(self, n: int = 1, request_id: str | None = None) -> None:
        """Before rendering, reserve; later, inside the engine, only vLLM's own check."""
        guard, trip = self._headway_guard, TRIP.get()
        if request_id is None and trip is not None and not (trip.bypass or trip.detached):
            try:
                guard.reserve(trip, max(1, n))
            except Refused as refused:
                raise guard.kind.error(refused) from None
        self._headway_base.check_admission(self, n, request_id)

    def generate(self, prompt: Any, sampling_params: Any, request_id: str, **options: Any) -> AsyncGenerator[Any, None]:
        """As the engine's own, with Headway's ``priority``, ``tenant``, ``timeout_s``, ``timeouts`` and ``may_wait``.

        ``priority`` is a class name, or a number of which a larger one is more urgent. Raises UnknownClassError at
        the first step of the iteration, Refused at any.
        """
        seats = self._headway_guard.kind.seats(sampling_params)
        return self._headway_lead(self._headway_base.generate, prompt, sampling_params, request_id, seats, options)

    def encode(self, prompt: Any, pooling_params: Any, request_id: str, **options: Any) -> AsyncGenerator[Any, None]:
        """Pooling requests pass the same gate: a call is a seat, and a request runs as many at once as there are."""
        call = self._headway_lead(self._headway_base.encode, prompt, pooling_params, request_id, 1, options)
        trip = TRIP.get()
        return call if trip is None else _in_turn(trip, self._headway_guard.gate.desk.limit, call)

    @property
    def errored(self) -> bool:
        """Whether the engine is dead and stays dead; whoever asks first has the gate told."""
        guard, dead = self._headway_guard, bool(self._headway_base.errored.fget(self))
        if dead:
            guard.engine_died()
        return dead and (guard.rescuer is None or guard.engine_lost or guard.closing)

    async def check_health(self) -> None:
        """As the engine's own, and unwell as well while it is silent or being restarted. Raises what it raises."""
        await self._headway_base.check_health(self)
        if self._headway_guard.gate.desk.engine is not Standing.UP:
            raise self._headway_guard.kind.unwell()

    async def pause_generation(self, **options: Any) -> None:
        """As the engine's own; nobody is sent to it meanwhile. Raises what it raises."""
        work = self._headway_base.pause_generation(self, **options)
        await self._headway_guard.change_pause(work, Hold.ENGINE_PAUSED)

    async def resume_generation(self) -> None:
        """As the engine's own; the gate opens when the engine says that it runs. Raises what it raises."""
        await self._headway_guard.change_pause(self._headway_base.resume_generation(self))

    async def sleep(self, *arguments: Any, **options: Any) -> None:
        """As the engine's own; nobody is sent to it meanwhile. Raises what it raises."""
        work = self._headway_base.sleep(self, *arguments, **options)
        await self._headway_guard.change_pause(work, Hold.ENGINE_ASLEEP)

    async def wake_up(self, *arguments: Any, **options: Any) -> Any:
        """As the engine's own; the gate opens when the engine says that all of it is awake. Raises what it raises."""
        return await self._headway_guard.change_pause(self._headway_base.wake_up(self, *arguments, **options))

    def shutdown(self, timeout: float | None = None) -> None:
        """Refuse whoever waits, give the running their time, answer whoever is left; from any thread, repeatedly."""
        left_s = self._headway_guard.close_from_any_thread(timeout)
        self._headway_base.shutdown(self, timeout=left_s)
        self._headway_guard.closed_from_any_thread()

    def _headway_lead(
        self,
        run: Callable[..., AsyncGenerator[Any, None]],
        prompt: Any,
        params: Any,
        request_id: str,
        seats: int,
        options: dict[str, Any],
    ) -> AsyncGenerator[Any, None]:
        """One call of the engine, behind the gate unless it may bypass it."""
        guard = self._headway_guard
        trip, own = _journeys(guard, options)
        if trip is None:
            own.prompt_tokens, own.max_tokens = guard.kind.size(prompt, params)

        def start(call_id: str, rank: int, most_tokens: int | None) -> AsyncGenerator[Any, None]:
            return run(self, prompt, shortened(params, most_tokens), call_id, priority=rank, **options)

        if own.bypass:
            return guard.carry_apart(start(request_id, 0, None), seats)
        silent, ends_late = guard.kind.silent(params), guard.kind.ends_late(params)
        return guard.carry(trip, request_id, seats, start, own, silent=silent, ends_late=ends_late)


def make_policy_class(base: type[Any], guard: Guard) -> type[Any]:
    """A subclass of an engine client's class whose requests pass the guard. What the class lacks it does not gain."""
    methods = {name: value for name, value in vars(PolicyClient).items() if not name.startswith("__")}
    if not isinstance(getattr(base, "errored", None), property):
        del methods["errored"]
    known = {name: value for name, value in methods.items() if name == "_headway_lead" or hasattr(base, name)}
    own = {**known, "_headway_guard": guard, "_headway_base": base, "__doc__": PolicyClient.__doc__}
    return type(f"Policy{base.__name__}", (base,), own)


async def _in_turn(trip: Trip, seats: int, call: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """One of many calls of a request, of which only so many run at once, however long its list of inputs is."""
    if trip.turns is None:
        trip.turns = asyncio.Semaphore(seats)
    async with trip.turns, aclosing(call):
        async for output in call:
            yield output


def _journeys(guard: Guard, options: dict[str, Any]) -> tuple[Trip | None, Trip]:
    """The trip of the HTTP request around this call, if any, and the one to use; Headway's options leave the rest."""
    priority = options.pop("priority", None)
    tenant, may_wait = options.pop("tenant", None), options.pop("may_wait", True)
    total_s, timeouts = options.pop("timeout_s", None), options.pop("timeouts", NO_TIMEOUTS)
    trip = TRIP.get()
    if trip is not None and trip.detached:  # nobody waits for this one: it outlives its HTTP request
        return None, Trip(trip.class_name, trip.tenant, trip.timeouts, may_wait=trip.may_wait)
    if trip is not None:
        return trip, trip
    asked = timeouts if total_s is None else timeouts.shortened_by(Timeouts(total_s=total_s))
    return None, Trip(guard.class_of(priority), tenant or "", asked, may_wait=may_wait)
