"""The request context: what the middleware hands to the engine calls of an HTTP request, in a context variable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from headway.admission.permit import Permit
from headway.engine import Invalid
from headway.errors import Refused
from headway_policies.request import NO_TIMEOUTS, Timeouts


@dataclass(slots=True)
class RequestContext:
    """One request: its class, sizes and time-outs, and the permit that all its engine calls share.

    ``share`` weighs its tenant against others of its class, ``service_tier`` is the tier that its response names.
    ``most_tokens`` bounds each of its answers, whatever it asks for: ``asked_tokens`` is the limit that its body names,
    ``max_tokens`` what each may have. ``answers`` to each prompt are asked for, as a stream of events where it
    ``streams``. ``ranked``: its body names a priority for the engine, or ``n_predict``, llama.cpp's own limit.
    One with a ``late_seat`` asks for its seat only once the engine may have its call, which takes a while to find out.
    ``bypass`` marks the server's own requests, which pass without a permit; ``detached`` one whose engine call outlives
    the HTTP request. ``invalid`` is what the engine, or a check before it, found wrong. ``on_arrival`` is called once,
    when the request first asks for a permit, ``on_entered`` when it has it, ``on_given_up`` when it is aborted.
    """

    class_name: str | None = None
    tenant: str = ""
    timeouts: Timeouts = NO_TIMEOUTS
    prompt_tokens: int = 0
    prompt_bytes: int = 0
    asked_tokens: int | None = None
    max_tokens: int | None = None
    prefix: tuple[int, ...] = ()
    may_wait: bool = True
    share: float = 1.0
    service_tier: str | None = None
    most_tokens: int | None = None
    answers: int = 1
    streams: bool = False
    ranked: bool = False
    late_seat: bool = False
    bypass: bool = False
    prompts: int = 1
    detached: bool = False
    permit: Permit | None = None
    rejected: Refused | None = None
    invalid: Invalid | None = None
    on_arrival: Callable[[], None] | None = None
    on_given_up: Callable[[], None] | None = None
    on_entered: Callable[[], None] | None = None
    calls_failed: int = 0
    calls_completed: int = 0
    turns: asyncio.Semaphore | None = None

    @property
    def refused(self) -> Refused | None:
        """The refusal of this request, if it was refused."""
        return self.rejected if self.permit is None else self.permit.refused


REQUEST_CONTEXT: ContextVar[RequestContext | None] = ContextVar("headway_request_context", default=None)
