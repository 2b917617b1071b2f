"""The rule for full collections of Python's garbage collector.

A full collection stops the whole process. A collection is due when nothing runs and there are new objects to examine.
While requests run it is due only after many young collections, and never takes more than a hundredth of the time.
"""

from __future__ import annotations

_IDLE_EVERY_S = 10.0
_OVERDUE = 30  # young collections, each of some 7,000 new objects
_TIMES_ITS_LENGTH = 100.0


def full_collection_due(young: int, since_s: float, took_s: float, *, idle: bool) -> bool:
    """Whether to collect now, after ``young`` collections since the last full one, ``since_s`` ago, of ``took_s``."""
    if since_s < _TIMES_ITS_LENGTH * took_s:
        return False
    return (young > 0 and since_s >= _IDLE_EVERY_S) if idle else young >= _OVERDUE
