"""The arrivals of the last days and the instance hours of this one, kept in a file between two starts of a router.

There is one file for each model, in HEADWAY_CACHE_DIR: two routers for one model need folders of their own. Without it
the forecast begins anew, and needs two days.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat

from headway.supervision import CacheFile, cache_folder
from headway_policies.scaling import ArrivalHistory

_MAX_BYTES = 128 * 1024
_NAME_CHARS = 24
_DIGITS = 3


class _Content(BaseModel):
    """The file: for each slot of a day the seats that were filled on the last days, oldest first; where the hours of a
    day are bounded, a time and the instance seconds of its day until then."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    seats: list[list[float]] = Field(min_length=1, max_length=10_000)
    spent: tuple[NonNegativeFloat, NonNegativeFloat] | None = None


def arrivals_file(model: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The file for this model; None where nothing is kept, or the model is not known."""
    folder = cache_folder(environment)
    name = hashlib.sha256(model.encode()).hexdigest()[:_NAME_CHARS]
    return folder / f"arrivals-{name}.json" if folder is not None and model else None


class ArrivalsFile:
    """The file of one history. ``spent`` is what it says of the instance hours, as ``DesiredInstances`` does."""

    def __init__(self, path: Path, history: ArrivalHistory) -> None:
        self.spent: tuple[float, float] | None = None
        self._history = history
        self._file = CacheFile(path, _Content, _MAX_BYTES, "the arrivals of the last days are")

    def recall(self) -> None:
        """Continue from the file, if it can be used."""
        self._file.recall(self._take)

    def _take(self, content: _Content) -> None:
        self._history.recall(content.seats)
        self.spent = content.spent

    def keep(self) -> None:
        """Write the file, if there is anything to say."""
        seats = [[round(rate, _DIGITS) for rate in rates] for rates in self._history.remembered()]
        if any(seats) or self.spent:
            self._file.keep(_Content(seats=seats, spent=self.spent))
