"""The policy client: an engine's own client, with every request passed through the gateway.

The instance keeps its identity and gets a subclass (``__class__`` is assigned), so its other methods work as before and
``isinstance`` still holds: vLLM's handlers hold a reference to this object. Composition fails where vLLM asserts the
type (``/abort_requests``).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, ClassVar

from headway.admission.diversion import EngineCall, diverted
from headway.admission.gateway import Gateway
from headway.admission.max_tokens import shortened
from headway.admission.prefix_hashes import prompt_prefix
from headway.admission.request_context import REQUEST_CONTEXT, RequestContext
from headway.engine import Check, EngineAdapter, prompt_bytes
from headway.errors import Refused, refusal
from headway.openai.asked import Asked
from headway_policies import Block, EngineState
from headway_policies.request import NO_TIMEOUTS, Timeouts


class PolicyClient:
    """The methods of an engine client that differ behind Headway's gate.

    The class is neither instantiated nor inherited from: its methods are copied into a subclass of the engine's own
    class, because ``__class__`` accepts only a subclass without a second base. So they call that class by name, not
    ``super()``.
    """

    _headway_gateway: ClassVar[Gateway]
    _headway_base: ClassVar[Any]

    def check_admission(self, n: int = 1, request_id: str | None = None) -> None:
        """Reserve the seats before the prompt is rendered; later, inside the engine, only vLLM's own check."""
        gateway, context = self._headway_gateway, REQUEST_CONTEXT.get()
        if request_id is None and context is not None:
            try:
                gateway.announce(context, n)
            except Refused as refused:
                raise gateway.link.adapter.error(refused) from None
        self._headway_base.check_admission(self, n, request_id)

    def generate(self, prompt: Any, sampling_params: Any, request_id: str, **options: Any) -> AsyncGenerator[Any, None]:
        """Run a request, with Headway's ``priority``, ``tenant``, ``timeout_s``, ``timeouts`` and ``may_wait``.

        ``priority`` is a class name, or a number of which a larger one is more urgent. Raises UnknownClassError at
        the first step of the iteration, Refused at any.
        """
        seats = self._headway_gateway.link.adapter.seats(sampling_params)
        call = self._headway_carry(self._headway_base.generate, prompt, sampling_params, request_id, seats, options)
        context = REQUEST_CONTEXT.get()
        if context is None or not context.asked.route.form:
            return call
        return _in_turn(context, self._headway_gateway.gate.desk.limit, call)  # vLLM cuts long audio into many pieces

    def encode(self, prompt: Any, pooling_params: Any, request_id: str, **options: Any) -> AsyncGenerator[Any, None]:
        """Run a pooling request behind the same gate: each call takes a seat, at most all seats at once."""
        call = self._headway_carry(self._headway_base.encode, prompt, pooling_params, request_id, 1, options)
        context = REQUEST_CONTEXT.get()
        return call if context is None else _in_turn(context, self._headway_gateway.gate.desk.limit, call)

    async def abort(self, request_id: Any, *arguments: Any, **options: Any) -> None:
        """Stop requests, after the engine's counts of them are added to their accounts."""
        if not isinstance(request_id, str):
            request_id = list(request_id)
        internal = bool(options.get("internal", arguments[0] if arguments else False))
        self._headway_count_dropped(request_id, internal=internal)
        await self._headway_base.abort(self, request_id, *arguments, **options)

    @property
    def errored(self) -> bool:
        """Whether the engine is dead and no other one will follow. Reading it changes nothing."""
        return self._headway_gateway.link.errored

    async def check_health(self) -> None:
        """Raise what the engine's own check raises, and an error while the engine is unresponsive or restarting."""
        await self._headway_base.check_health(self)
        if self._headway_gateway.gate.desk.mode.engine is not EngineState.UP:
            raise self._headway_gateway.link.adapter.unwell()

    async def pause_generation(self, **options: Any) -> None:
        """Pause the engine; dispatch is suspended meanwhile. Raises what the engine raises."""
        work = self._headway_base.pause_generation(self, **options)
        await self._headway_gateway.link.change_pause(work, Block.ENGINE_PAUSED)

    async def resume_generation(self) -> None:
        """Resume the engine; dispatch resumes when the engine says that it runs. Raises what the engine raises."""
        await self._headway_gateway.link.change_pause(self._headway_base.resume_generation(self))

    async def sleep(self, *arguments: Any, **options: Any) -> None:
        """Put the engine to sleep; dispatch is suspended meanwhile. Raises what the engine raises."""
        work = self._headway_base.sleep(self, *arguments, **options)
        await self._headway_gateway.link.change_pause(work, Block.ENGINE_ASLEEP)

    async def wake_up(self, *arguments: Any, **options: Any) -> Any:
        """Wake the engine; dispatch resumes when all of the engine is awake. Raises what the engine raises."""
        return await self._headway_gateway.link.change_pause(self._headway_base.wake_up(self, *arguments, **options))

    def shutdown(self, timeout: float | None = None) -> None:
        """Refuse waiting requests, let running ones finish in time, refuse the rest. From any thread, repeatedly."""
        left_s = self._headway_gateway.link.close_from_any_thread(timeout)
        if "timeout" in inspect.signature(self._headway_base.shutdown).parameters:
            self._headway_base.shutdown(self, timeout=left_s)
        else:  # of a program's own engine
            self._headway_base.shutdown(self)
        self._headway_gateway.link.closed_from_any_thread()

    def _headway_count_dropped(self, request_ids: Any, *, internal: bool) -> None:
        """Count the sequences of these requests, which the engine is about to remove."""
        self._headway_gateway.engine_drops(request_ids, internal=internal)

    def _headway_carry(
        self,
        run: Callable[..., AsyncGenerator[Any, None]],
        prompt: Any,
        params: Any,
        request_id: str,
        seats: int,
        options: dict[str, Any],
    ) -> AsyncGenerator[Any, None]:
        """A call of the engine, with a permit unless it is the server's own."""
        gateway = self._headway_gateway
        context, own = _contexts(gateway, options)
        if context is None:
            tokens, most = gateway.link.adapter.size(prompt, params)
            adapter = getattr(options.get("lora_request"), "lora_name", None)
            own.asked = Asked(prompt_tokens=tokens, prompt_bytes=prompt_bytes(prompt), max_tokens=most, model=adapter)
            if gateway.gate.desk.preset.ordering.by_prefix:
                own.prefix = prompt_prefix(prompt)

        def start(call_id: str, rank: int, most_tokens: int | None) -> AsyncGenerator[Any, None]:
            return run(self, prompt, shortened(params, most_tokens), call_id, priority=rank, **options)

        if own.bypass:
            return gateway.carry_internal(start(request_id, 0, None), seats)
        adapter, diversion = gateway.link.adapter, gateway.diversion
        unstreamed, ends_late = adapter.unstreamed(params), adapter.ends_late(params)
        call = gateway.carry(context, request_id, seats, start, own, unstreamed=unstreamed, ends_late=ends_late)
        check = adapter.check(prompt, params, own.tenant)
        if check is not None:
            call = _checked(check, call, own, adapter)
        if diversion is None or context is not None:
            return call

        def elsewhere(timeout_s: float | None) -> AsyncGenerator[Any, None]:
            terms = {"priority": own.class_name, "tenant": own.tenant, "timeouts": own.timeouts}
            return diversion.serve(EngineCall(prompt, params, request_id, options, terms), timeout_s)

        class_name = own.class_name or gateway.gate.desk.preset.default_class
        return diverted(diversion, class_name, own.timeouts, call, elsewhere)


def make_policy_class(base: type[Any], gateway: Gateway) -> type[Any]:
    """A subclass of an engine client's class whose requests pass the gateway. The subclass gains no method that the
    class lacks.
    """
    methods = {name: value for name, value in vars(PolicyClient).items() if not name.startswith("__")}
    if not isinstance(getattr(base, "errored", None), property):
        del methods["errored"]
    known = {name: value for name, value in methods.items() if name.startswith("_headway") or hasattr(base, name)}
    own = {**known, "_headway_gateway": gateway, "_headway_base": base, "__doc__": PolicyClient.__doc__}
    return type(f"Policy{base.__name__}", (base,), own)


async def _in_turn(context: RequestContext, seats: int, call: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """Wait until fewer than ``seats`` calls of the request run, however long its list of inputs is."""
    if context.turns is None:
        context.turns = asyncio.Semaphore(seats)
    async with context.turns, aclosing(call):
        async for output in call:
            yield output


async def _checked(
    check: Check, call: AsyncGenerator[Any, None], context: RequestContext, adapter: EngineAdapter
) -> AsyncGenerator[Any, None]:
    """The call, once the engine may have it. Raises the engine's error where it may not, or not now."""
    async with aclosing(call):
        try:
            await check()
        except Refused as refused:
            context.rejected = refusal(refused.reason, refused.retry_after_s)
            raise adapter.error(refused) from None
        except Exception as error:
            context.invalid = adapter.invalid(error)
            raise
        async for output in call:
            yield output


def _contexts(gateway: Gateway, options: dict[str, Any]) -> tuple[RequestContext | None, RequestContext]:
    """The context of the HTTP request around this call, if any, and the one to use. Removes Headway's own options."""
    priority = options.pop("priority", None)
    tenant, may_wait = options.pop("tenant", None), options.pop("may_wait", True)
    total_s, timeouts = options.pop("timeout_s", None), options.pop("timeouts", NO_TIMEOUTS)
    context = REQUEST_CONTEXT.get()
    if context is not None and context.asked.detached:  # this call outlives its HTTP request
        own = RequestContext(context.class_name, context.tenant, context.timeouts, may_wait=context.may_wait)
        own.share, own.key, own.most_tokens = context.share, context.key, context.most_tokens
        if context.on_own_call is not None:
            context.on_own_call(own)
        return None, own
    if context is not None:
        return context, context
    asked = timeouts if total_s is None else timeouts.shortened_by(Timeouts(total_s=total_s))
    return None, RequestContext(gateway.class_of(priority), tenant or "", asked, may_wait=may_wait)
