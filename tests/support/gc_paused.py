"""A block without automatic garbage collection, to count the cycles that a piece of code leaves behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Collect, then disable the collector: ``gc.collect()`` inside the block counts only the block's own garbage."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
