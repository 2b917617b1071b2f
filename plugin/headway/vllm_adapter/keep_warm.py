"""When nothing has run for a while: what keeps the engine warm?

One request of a few tokens, past the gate and counted nowhere, whenever the preset's ``keep_warm_after_s`` has gone by
without an engine step. Off by default. The preset may be switched at any time, so it is looked at every second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any, Protocol

from headway.control import Control
from headway.vllm_adapter.apart import run_apart
from headway.vllm_adapter.dummies import Dummies
from headway_policies import State
from headway_policies.warmup import is_cooling

log = logging.getLogger(__name__)

_CHORE = "keep-warm"
_LOOK_AGAIN_S = 1.0


class Brief(Protocol):
    """Where the short requests come from; for vLLM it is ``Dummies``."""

    def ask_briefly(self, request_id: str) -> AsyncGenerator[Any, None]:
        """Start one."""
        ...


def keep_warm(engine: Any, control: Control, source: Brief | None = None) -> None:
    """Watch over an engine in the background, for as long as the server lives."""
    control.chores.start(_CHORE, _watch(control, source or Dummies(engine)))


async def _watch(control: Control, source: Brief) -> None:
    now_s = control.guard.gate.now_s
    tried_s = now_s()
    while not control.guard.closing:
        await asyncio.sleep(_LOOK_AGAIN_S)
        idle_s = 0.0 if control.guard.open_calls else now_s() - max(tried_s, control.stepped_s)
        if is_cooling(control.preset.warmup, idle_s) and _serving(control):
            await _once(control, source)
            tried_s = now_s()


def _serving(control: Control) -> bool:
    return control.guard.gate.desk.state is State.OPEN and not control.not_ready()


async def _once(control: Control, source: Brief) -> None:
    """One request. Its failure is no news: whoever watches the engine will tell of it."""
    control.keeping_warm = True
    try:
        async with asyncio.timeout(control.preset.warmup.at_most_s):
            await run_apart(control, "keep-warm", source.ask_briefly)
    except Exception as error:
        log.debug("keep-warm: %s: %s", type(error).__name__, error)
    finally:
        control.keeping_warm = False
