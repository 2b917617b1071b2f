"""The objects that live as long as the process, left out of garbage collections.

Streamlit collects all garbage after every run of a page, so at each refresh of each visitor. To go through the modules
and their data costs a tenth of a second each time, and they are never garbage.
"""

from __future__ import annotations

import gc
import threading

_due = threading.Event()


def freeze_when_drawn() -> None:
    """Leave them out from the first drawn page on; called when the web server starts."""
    _due.set()


def drawn() -> None:
    """A page was drawn, so that all modules are imported: leave out, once, what there is now."""
    if _due.is_set():
        _due.clear()
        gc.collect()
        gc.freeze()
