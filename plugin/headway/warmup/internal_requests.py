"""Requests of the server's own: past the gate, counted nowhere, and leaving nothing behind."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from headway.admission import REQUEST_CONTEXT, Gateway, RequestContext
from headway.background_tasks import BackgroundTasks
from headway.errors import HeadwayError

Start = Callable[[str], AsyncGenerator[Any, None]]

_SERIALS = itertools.count(1)  # of the process: no id comes twice, also not after a failure


async def run_internal(gateway: Gateway, tasks: BackgroundTasks, purpose: str, start: Start) -> float | None:
    """Run one request to its end; returns the seconds to its first output, None where that was its last.

    Raises HeadwayError when the engine did not finish it, and what the engine raises.

    A request that does not end is aborted as one of ``tasks``.
    """
    request_id, last, first_s = f"headway-{purpose}-{next(_SERIALS)}", None, None
    begun_s, outputs = gateway.gate.now_s(), 0
    token = REQUEST_CONTEXT.set(RequestContext(bypass=True))
    try:
        async with aclosing(start(request_id)) as stream:
            async for output in stream:
                last = output
                outputs += 1
                first_s = gateway.gate.now_s() - begun_s if first_s is None else first_s
    except BaseException:
        _abort(gateway, tasks, request_id)
        raise
    finally:
        REQUEST_CONTEXT.reset(token)
    if last is None or gateway.link.adapter.unfinished(last):
        raise HeadwayError("the engine did not finish a request")
    return first_s if outputs > 1 else None


def _abort(gateway: Gateway, tasks: BackgroundTasks, request_id: str) -> None:
    """Abort the request without waiting. vLLM itself forgets a request that is cancelled while it is added."""
    engine = gateway.link.engine
    if not engine.errored:
        tasks.start(f"abort of {request_id}", engine.abort(request_id))
