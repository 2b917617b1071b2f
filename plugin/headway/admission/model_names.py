"""The names by which clients ask for a model: those of the model itself, and those of its adapters (LoRA).

A client may name whatever it likes. A name is an adapter's where the server was started with it, or once an answer to
it has begun; any other counts as the model's own until then. So a name that is made up, which is answered with 404,
takes no adapter's place in the engine and has no row in the accounting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: The most names that are learnt; those beyond count as the model's own.
MOST: Final = 1000


class ModelNames:
    """The names of one model, ``own``, and those of its ``adapters`` at the start."""

    def __init__(self, own: Iterable[str] = (), adapters: Iterable[str] = ()) -> None:
        self._own = frozenset(own)
        self._adapters = {*adapters} - self._own

    def adapter(self, name: str | None) -> str | None:
        """The adapter of that name; None: the model itself, or no adapter that is known."""
        return name if name in self._adapters else None

    def answered(self, name: str | None) -> str | None:
        """An answer to that name has begun: it is known from now on. Returns its adapter."""
        if name and name not in self._own and len(self._adapters) < MOST:
            self._adapters.add(name)
        return self.adapter(name)
