"""The control of Python's garbage collector: when full collections run.

A full collection visits every object and stops the event loop meanwhile: a second for some millions of objects. Once
the server is warm, all objects are frozen (``gc.freeze``), the full collections that Python would start are off, and
``update`` runs them instead: when nothing runs, or when much has accumulated. The young generations, which are small,
stay with Python. Another thread would not help: a collection occupies the interpreter.

Known weak spot: a cycle of frozen objects that falls out of use is found by ``tidy`` only.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import monotonic

from headway.supervision.memory.gc_pauses import GcPauses
from headway_policies.memory import full_collection_due

_NEVER = 2**30
_OLDEST = 2


class GcControl:
    """Control of the collector from ``start`` to ``stop``, or for the length of a ``with`` block."""

    def __init__(self, pauses: GcPauses | None = None, now_s: Callable[[], float] = monotonic) -> None:
        self.pauses = pauses or GcPauses()
        self._now_s = now_s
        self._before: tuple[int, int, int] | None = None
        self._frozen_before = False
        self._ended_s = 0.0
        self._took_s = 0.0

    def __enter__(self) -> GcControl:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Freeze all objects that exist now. Takes as long as one full collection."""
        if self._before is None:
            self._before = gc.get_threshold()
            self._frozen_before = gc.get_freeze_count() > 0
            young, middle, _ = self._before
            gc.set_threshold(young, middle, _NEVER)
            self.pauses.watch()
            self._collect()
            gc.freeze()
            self._took_s = 0.0  # that visited what is frozen now; the next collection has less to visit

    def stop(self) -> None:
        """Restore the collector. Where other code had frozen objects before, all stay frozen."""
        if self._before is not None:
            gc.set_threshold(*self._before)
            self.pauses.unwatch()
            if not self._frozen_before:
                gc.unfreeze()
            self._before = None

    def update(self, *, idle: bool) -> bool:
        """Run a full collection if one is due; returns whether it ran. Call it every few seconds."""
        if self._before is None:
            return False
        since_s = self._now_s() - self._ended_s
        due = full_collection_due(gc.get_count()[_OLDEST], since_s, self._took_s, idle=idle)
        if due:
            self._collect()
        return due

    def tidy(self) -> None:
        """Collect garbage among frozen objects too, however long it takes."""
        if self._before is not None:
            gc.unfreeze()
            self._collect()
            gc.freeze()

    def _collect(self) -> None:
        began_s = self._now_s()
        gc.collect()
        self._ended_s = self._now_s()
        self._took_s = self._ended_s - began_s
