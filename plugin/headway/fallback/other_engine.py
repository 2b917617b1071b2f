"""Another engine of the same program, to which requests are diverted.

The counterpart of ``FallbackClient``, which forwards HTTP requests, for programs that call their engine themselves.
Until the first output nothing is lost: after any failure the caller's own engine, or its refusal, stands. After the
first output an error is the caller's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from headway.admission import EngineCall, NotServedError
from headway_policies.fallback import CircuitBreaker, Degradation, Verdict

#: Runs one request, as ``Engine.generate`` does: (prompt, sampling_params, request_id, **options).
Generate = Callable[..., AsyncGenerator[Any, None]]


class OtherEngine:
    """Another engine, or a function like its ``generate``. Call it on one event loop only.

    Raises TypeError for anything else.
    """

    degradation = Degradation.MODEL

    def __init__(self, other: object) -> None:
        generate = getattr(other, "generate", other)
        if isinstance(other, type) or not callable(generate):
            raise TypeError(
                f"fallback= takes another engine, or a function like its generate: {type(other).__name__} is neither"
            )
        self.model = str(getattr(other, "__name__", type(other).__name__))
        self.breaker = CircuitBreaker()
        self.in_flight = 0
        self._generate: Generate = generate
        self._behind_gate = hasattr(other, "headway")

    async def serve(self, call: EngineCall, timeout_s: float | None) -> AsyncGenerator[Any, None]:
        """Run one request there within ``timeout_s`` seconds. Raises NotServedError before the first output.

        Only another engine behind a gate is given Headway's terms.
        """
        loop = asyncio.get_running_loop()
        attempt = self.breaker.begin(loop.time())
        if attempt is None:
            raise NotServedError("the other engine failed several times in a row, and gets no request for a while")
        until_s = None if timeout_s is None else loop.time() + timeout_s
        verdict, shown = Verdict.UNDECIDED, False
        self.in_flight += 1
        try:
            options = {**call.options, **call.terms} if self._behind_gate else call.options
            async with aclosing(self._generate(call.prompt, call.params, call.request_id, **options)) as stream:
                while True:
                    try:
                        left_s = None if until_s is None else max(0.0, until_s - loop.time())
                        output = await asyncio.wait_for(anext(stream), left_s)
                    except StopAsyncIteration:
                        break
                    shown = True
                    yield output
            verdict = Verdict.SUCCESS
        except Exception as error:
            # the end of a request's own time says nothing of the engine
            own_end = isinstance(error, TimeoutError) and until_s is not None and loop.time() >= until_s
            verdict = Verdict.UNDECIDED if own_end else Verdict.FAILURE
            if shown:
                raise
            raise NotServedError(f"{type(error).__name__}") from error
        finally:
            self.in_flight -= 1
            self.breaker.ended(attempt, verdict, loop.time())
        if not shown:
            raise NotServedError("the other engine gave no output")

    async def close(self) -> None:
        """Do nothing: the engine is the program's."""
