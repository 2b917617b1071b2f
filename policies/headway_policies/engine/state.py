"""The state of the engine, as far as dispatching depends on it.

state        dispatch   arrivals       entered when
UP           yes        seat or queue  the engine serves
SILENT       no         queue          the engine is unresponsive; what it runs may still end
RESTARTING   no         queue          the engine is gone, and a new one is being started
LOST         no         refused        the engine is gone, and no new one is being waited for
"""

from __future__ import annotations

from enum import StrEnum


class EngineState(StrEnum):
    """The state of the engine."""

    UP = "up"
    SILENT = "silent"
    RESTARTING = "restarting"
    LOST = "lost"
