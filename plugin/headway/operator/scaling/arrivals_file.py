"""The arrivals of the last days and the instance hours of this one, kept in a file between two starts of a router.

There is one file for each model, in HEADWAY_CACHE_DIR: two routers for one model need folders of their own. One that
cannot be read or written costs a warning: the forecast then begins anew, and needs two days.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat

from headway.supervision import cache_folder, write_cache_file
from headway_policies.scaling import ArrivalHistory
from headway_policies.text_file import TextFileError, read_text_file

log = logging.getLogger(__name__)

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
        self._path = path
        self._history = history
        self._kept: _Content | None = None
        self._failed = False

    def recall(self) -> None:
        """Continue from the file, if it can be used."""
        if not os.path.exists(self._path):
            return
        try:
            content = _Content.model_validate_json(read_text_file(self._path, _MAX_BYTES))
            self._history.recall(content.seats)
        except TextFileError as error:
            self._log_unused(str(error))
        except ValueError:  # pydantic's is one, too
            self._log_unused("not what Headway writes")
        else:
            self._kept, self.spent = content, content.spent

    def keep(self) -> None:
        """Write the file, if it would say anything else than the last time."""
        seats = [[round(rate, _DIGITS) for rate in rates] for rates in self._history.remembered()]
        content = _Content(seats=seats, spent=self.spent)
        if content == self._kept or not (any(seats) or content.spent):
            return
        try:
            write_cache_file(self._path, content.model_dump_json())
        except OSError as error:
            if not self._failed:
                log.warning("the arrivals of the last days are not kept: %s: %s", self._path, error.strerror)
            self._failed = True
        else:
            self._kept = content

    def _log_unused(self, why: str) -> None:
        log.warning("the arrivals of the last days are not used: %s: %s", self._path, why)
