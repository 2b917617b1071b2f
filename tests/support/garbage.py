"""What is left for Python's collector?"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nobody_collects() -> Iterator[None]:
    """The collector has been, and stands still: ``gc.collect()`` inside counts what the block has left."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
