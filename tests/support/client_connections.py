"""Connections of the tests' own HTTP clients that nobody closed.

httpx may leave the connection of a request that was cancelled to the garbage collector, which then reports it in
whichever test it happens to run in. The servers are processes of their own: none of their connections is among these.
"""

from __future__ import annotations

import gc
import warnings


def drop_connections() -> None:
    """Collect them now, without a report."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
