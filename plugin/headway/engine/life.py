"""The life of an engine: whether an engine exists and answers. Its link keeps the state, and tells the desk.

state        meaning                                               the desk has it as
UP           it serves                                             up
STARTING     it exists, and its warm-up has not succeeded          lost (not ready)
SILENT       it does not answer                                    silent
DEAD         its death is reported, and not handled yet            what it was before
RESTARTING   its death is handled, and another engine is coming    restarting, or lost (out of memory)
LOST         it is gone, and no other engine will come             lost
CLOSED       it was stopped with its server                        lost (draining)
"""

from __future__ import annotations

from enum import StrEnum


class EngineLife(StrEnum):
    """The state of an engine, as its link has it."""

    UP = "up"
    STARTING = "starting"
    SILENT = "silent"
    DEAD = "dead"
    RESTARTING = "restarting"
    LOST = "lost"
    CLOSED = "closed"


_ALIVE = frozenset({EngineLife.UP, EngineLife.STARTING, EngineLife.SILENT})
#: The states in which there is no engine.
GONE = frozenset(EngineLife) - _ALIVE
#: The states that each state can follow. A report in any other state changes nothing.
FOLLOWS = {
    EngineLife.UP: frozenset(EngineLife) - {EngineLife.CLOSED},
    EngineLife.STARTING: _ALIVE,
    EngineLife.SILENT: frozenset({EngineLife.UP}),
    EngineLife.DEAD: _ALIVE,
    EngineLife.RESTARTING: _ALIVE | {EngineLife.DEAD},
    EngineLife.LOST: frozenset(EngineLife) - {EngineLife.CLOSED},
    EngineLife.CLOSED: frozenset(EngineLife) - {EngineLife.LOST},
}
