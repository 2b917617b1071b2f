"""When may Python's collector look at everything?

A full collection stops the whole process. It is due when nothing runs and there is something to look at; while
something runs, only when much has piled up, and never so often that more than a hundredth of the time goes into it.
"""

from __future__ import annotations

_IDLE_EVERY_S = 10.0
_OVERDUE = 30  # of the collections before it, each of some 7,000 new objects
_TIMES_ITS_LENGTH = 100.0


def full_collection_due(young: int, since_s: float, took_s: float, *, idle: bool) -> bool:
    """Whether to collect now: so many young collections since the last full one, which was then and took so long."""
    if since_s < _TIMES_ITS_LENGTH * took_s:
        return False
    return (young > 0 and since_s >= _IDLE_EVERY_S) if idle else young >= _OVERDUE
