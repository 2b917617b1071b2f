"""The file that keeps what was learnt of an engine between two starts of a server.

Each engine has a file, named by its fingerprint, in HEADWAY_CACHE_DIR: ``headway`` beside vLLM's compile cache where
the variable is not set, nowhere where it is empty. The fit of the step time goes on from the file under every preset,
an adaptive limit where its settings are the same. The file is written once a minute while something new is learnt, and
when the server ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headway.admission import Gate
from headway.supervision.cache_file import CacheFile, cache_folder
from headway_policies.limits import Learnt, LimitSettings

log = logging.getLogger(__name__)

_EVERY_S = 60.0
_MAX_BYTES = 8192
_NAME_CHARS = 24


class _Content(BaseModel):
    """The file: the costs of the engine's steps, and settings, seats and policy state of the last limit that learnt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: dict[str, float] = Field(default={}, max_length=16)
    limit: LimitSettings | None = None
    seats: int = Field(default=1, ge=1, le=65_536)
    policy: dict[str, float] = Field(default={}, max_length=16)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.engine and self.limit is None:
            raise ValueError("neither of an engine nor of a limit")
        return self


def learnt_limit_file(fingerprint: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The file for this engine; None where nothing is kept, or the engine is not known."""
    folder = cache_folder(environment)
    return folder / f"limit-{fingerprint[:_NAME_CHARS]}.json" if folder is not None and fingerprint else None


class LearntLimit:
    """The learnt limit of one gate: recalled at the start, and kept from then on."""

    def __init__(self, gate: Gate, path: Path) -> None:
        self._gate = gate
        self._file = CacheFile(path, _Content, _MAX_BYTES, "the learnt limit is")

    def recall(self) -> None:
        """Start from the fitting content of the file. To be called before the first request."""
        self._file.recall(self._take)

    def _take(self, content: _Content) -> None:
        desk = self._gate.desk
        desk.engine_fit.recall(content.engine)
        if desk.preset.limit.moves and content.limit == desk.preset.limit:
            self._gate.recall_limit(Learnt(content.seats, content.policy))
            log.info("the limit starts at %d seats, as this engine's last server had learnt it", desk.limit)

    async def run(self) -> None:
        """Write what is learnt, once a minute and at the end, for as long as the server runs."""
        try:
            while True:
                await asyncio.sleep(_EVERY_S)
                self.keep()
        finally:
            self.keep()

    def keep(self) -> None:
        """Write the file, if anything new has been learnt."""
        desk = self._gate.desk
        learnt, engine = desk.read(self._gate.now_s()).learnt_limit, dict(desk.engine_fit.learnt())
        known: dict[str, Any] = {"engine": engine} if engine else {}
        if learnt is not None:
            known |= {"limit": desk.preset.limit, "seats": learnt.seats, "policy": dict(learnt.policy)}
        if known:
            kept = self._file.kept
            self._file.keep(_Content(**known) if kept is None else kept.model_copy(update=known))
