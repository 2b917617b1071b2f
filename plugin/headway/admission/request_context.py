"""The request context: what the middleware hands to the engine calls of an HTTP request, in a context variable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from headway.admission.permit import Permit
from headway.engine import Invalid
from headway.errors import Refused
from headway.openai.asked import NOTHING, Asked
from headway_policies.request import NO_TIMEOUTS, Timeouts

#: The reason of a request that its tenant's budget gives the least urgent class.
BUDGET: Final = "budget"


@dataclass(frozen=True, slots=True)
class LoweredClass:
    """The class that a request asked for and did not get, and why: ``key``, ``no_key``, or ``BUDGET``."""

    asked: str
    reason: str

    def header(self) -> tuple[str, str]:
        """The header that tells the client, beside ``x-headway-class`` with the class that it got."""
        return "x-headway-class-asked", f"{self.asked}; reason={self.reason}"


@dataclass(slots=True)
class RequestContext:
    """A request: its class, time-outs and what it ``asked``, and the permit that all its engine calls share.

    ``share`` weighs its tenant against others of its class, ``key`` is the name of the key that it came with,
    ``service_tier`` the tier that its response names. ``lowered``: it asked for a class above its rights.
    ``answers`` is the number of answers to each prompt, where the engine was told of it before its first call, and
    ``most_tokens`` bounds each of them, whatever the request asks for. ``bypass`` marks the server's own requests,
    which pass without a permit. ``invalid`` is what the engine, or a check before it, found wrong. ``on_arrival`` is
    called once, when the request first asks for a permit, ``on_entered`` when it has it, ``on_given_up`` when it is
    aborted, ``on_own_call`` for each engine call that outlives it, with the context of that call.
    """

    class_name: str | None = None
    tenant: str = ""
    timeouts: Timeouts = NO_TIMEOUTS
    asked: Asked = NOTHING
    prefix: tuple[int, ...] = ()
    may_wait: bool = True
    share: float = 1.0
    key: str = ""
    lowered: LoweredClass | None = None
    service_tier: str | None = None
    answers: int = 1
    most_tokens: int | None = None
    bypass: bool = False
    permit: Permit | None = None
    rejected: Refused | None = None
    invalid: Invalid | None = None
    on_arrival: Callable[[], None] | None = None
    on_given_up: Callable[[], None] | None = None
    on_entered: Callable[[], None] | None = None
    on_own_call: Callable[[RequestContext], None] | None = None
    calls_failed: int = 0
    calls_completed: int = 0
    turns: asyncio.Semaphore | None = None

    @property
    def max_tokens(self) -> int | None:
        """The tokens that each answer may have: charges and estimates count with these."""
        return min((most for most in (self.asked.max_tokens, self.most_tokens) if most is not None), default=None)

    @property
    def refused(self) -> Refused | None:
        """The refusal of this request, if it was refused."""
        return self.rejected if self.permit is None else self.permit.refused


REQUEST_CONTEXT: ContextVar[RequestContext | None] = ContextVar("headway_request_context", default=None)
