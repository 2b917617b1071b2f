"""Freed heap memory returned to the operating system (``malloc_trim``).

glibc keeps what a program frees for its next request; ``malloc_trim`` gives it back. The call needs no interpreter
lock, so it belongs on a thread. Where there is another C library, nothing happens.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


def give_back() -> bool:
    """Return freed memory to the system; whether any was returned."""
    trim = _trim()
    return trim is not None and bool(trim(0))


@functools.cache
def _trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return trim
