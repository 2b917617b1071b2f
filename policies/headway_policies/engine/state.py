"""What can the engine take now?

standing     tickets go to it   newcomers      entered when
UP           yes                seat or queue  it serves
SILENT       no                 queue          it gives no sign of life; what it runs may still end
RESTARTING   no                 queue          it is gone, another one is being started in its place
LOST         no                 refused        it is gone, and nobody may wait for another one
"""

from __future__ import annotations

from enum import StrEnum


class EngineState(StrEnum):
    """How the engine stands."""

    UP = "up"
    SILENT = "silent"
    RESTARTING = "restarting"
    LOST = "lost"
