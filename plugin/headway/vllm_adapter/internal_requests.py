"""How does a request of the server's own run: past the gate, counted nowhere, and leaving nothing behind?"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from headway.admission import REQUEST_CONTEXT, RequestContext
from headway.errors import HeadwayError
from headway.operator import Control

Start = Callable[[str], AsyncGenerator[Any, None]]

_SERIALS = itertools.count(1)  # of the process: no id comes twice, also not after a failure


async def run_internal(control: Control, purpose: str, start: Start) -> None:
    """Run one request to its end. Raises HeadwayError when the engine gave it up, and what the engine raises."""
    request_id, last = f"headway-{purpose}-{next(_SERIALS)}", None
    token = REQUEST_CONTEXT.set(RequestContext(bypass=True))
    try:
        async with aclosing(start(request_id)) as stream:
            async for output in stream:
                last = output
    except BaseException:
        _abort(control, request_id)
        raise
    finally:
        REQUEST_CONTEXT.reset(token)
    if last is None or control.gateway.adapter.unfinished(last):
        raise HeadwayError("the engine gave a request up")


def _abort(control: Control, request_id: str) -> None:
    """Apart from the caller, who is in a hurry. vLLM itself forgets a request that is cancelled while it is added."""
    engine = control.gateway.engine
    if not engine.errored:
        control.tasks.start(f"abort of {request_id}", engine.abort(request_id))
