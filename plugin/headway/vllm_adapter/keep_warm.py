"""When nothing has run for a while: what keeps the engine warm?

One request of a few tokens, past the gate and counted nowhere, whenever the preset's ``keep_warm_after_s`` has gone by
without an engine step. Off by default. The preset may be switched at any time, so it is looked at every second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any, Protocol

from headway.operator import Control
from headway.vllm_adapter.internal_requests import run_internal
from headway.vllm_adapter.warmup_requests import WarmupRequests
from headway_policies import AdmissionState
from headway_policies.engine import keep_warm_due

log = logging.getLogger(__name__)

TASK = "keep-warm"
_LOOK_AGAIN_S = 1.0


class Brief(Protocol):
    """Where the short requests come from; for vLLM it is ``WarmupRequests``."""

    def short_request(self, request_id: str) -> AsyncGenerator[Any, None]:
        """Start one."""
        ...


def keep_warm(engine: Any, control: Control, source: Brief | None = None) -> None:
    """Watch over an engine in the background, for as long as the server lives."""
    control.tasks.start(TASK, _watch(control, source or WarmupRequests(engine)))


async def _watch(control: Control, source: Brief) -> None:
    now_s = control.gateway.gate.now_s
    tried_s = now_s()
    while not control.gateway.closing:
        await asyncio.sleep(_LOOK_AGAIN_S)
        idle_s = 0.0 if control.gateway.open_calls else now_s() - max(tried_s, control.stepped_s)
        if keep_warm_due(control.preset.warmup, idle_s) and _serving(control):
            await _once(control, source)
            tried_s = now_s()


def _serving(control: Control) -> bool:
    return control.gateway.gate.desk.state is AdmissionState.OPEN and not control.not_ready()


async def _once(control: Control, source: Brief) -> None:
    """One request. Its failure is no news: whoever watches the engine will tell of it."""
    control.keeping_warm = True
    try:
        async with asyncio.timeout(control.preset.warmup.timeout_s):
            await run_internal(control, "keep-warm", source.short_request)
    except Exception as error:
        log.debug("keep-warm: %s: %s", type(error).__name__, error)
    finally:
        control.keeping_warm = False
