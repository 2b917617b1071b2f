"""Diversion of a program's own calls to another engine: of arrivals, and of calls that were refused.

Calls of an HTTP request are not diverted here: the whole request is (``headway.http.inference.fallback_route``).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from headway.admission.gate import loop_time_s
from headway.errors import Refused
from headway_policies import Reason
from headway_policies.request import Timeouts

#: Starts the call elsewhere, within this time in seconds; None: without a bound.
Elsewhere = Callable[[float | None], AsyncGenerator[Any, None]]


@dataclass(frozen=True, slots=True)
class EngineCall:
    """A call of a program: the arguments of ``generate``, and of its options those of Headway (``terms``) apart."""

    prompt: Any
    params: Any
    request_id: str
    options: dict[str, Any]
    terms: dict[str, Any]


class NotServedError(Exception):
    """The other engine gave no output; nothing has been sent."""


class Diversion(Protocol):
    """Another engine, and which requests go there."""

    def diverts(self, class_name: str, refused: Reason | None = None) -> bool:
        """Whether the other engine should take a request of this class; ``refused`` is the reason of a refusal."""
        ...

    def time_left_s(self, class_name: str, asked: Timeouts, passed_s: float) -> float | None:
        """The remaining part of a request's total time-out; None where it has none."""
        ...

    def count_diverted(self, class_name: str) -> None:
        """Count a request of this class that the other engine answered."""
        ...

    def serve(self, call: EngineCall, timeout_s: float | None) -> AsyncGenerator[Any, None]:
        """Run one request on the other engine. Raises NotServedError before the first output."""
        ...


async def diverted(
    diversion: Diversion, class_name: str, asked: Timeouts, here: AsyncGenerator[Any, None], elsewhere: Elsewhere
) -> AsyncGenerator[Any, None]:
    """A call, here or elsewhere, where it is tried once at most. Raises what the call raises here."""
    began_s, refused, shown = loop_time_s(), None, False
    if not diversion.diverts(class_name):
        try:
            async with aclosing(here):
                async for output in here:
                    shown = True
                    yield output
            return
        except Refused as error:
            if shown or not diversion.diverts(class_name, error.reason):
                raise
            refused = error
    left_s = diversion.time_left_s(class_name, asked, loop_time_s() - began_s)
    try:
        async with aclosing(elsewhere(left_s)) as stream:
            async for output in stream:
                if not shown:
                    diversion.count_diverted(class_name)
                shown = True
                yield output
        return
    except NotServedError:
        if refused is not None:
            raise refused from None
    async with aclosing(here):
        async for output in here:
            yield output
