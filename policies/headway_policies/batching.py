"""When may a batch leave?

``continuous``: a request leaves as soon as a seat is free, and the engine refills its running batch at every step
(iteration-level scheduling: Yu et al., Orca, OSDI 2022).
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Batching(BaseModel):
    """The strategy, the seats it may fill and the window in which a batch may gather.

    ``window_ms`` is part of every preset; under ``continuous`` a request never waits for company, so it has no effect.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    strategy: Literal["continuous"] = "continuous"
    seats: int = Field(ge=1, le=65_536)
    window_ms: float = Field(ge=0, le=60_000)
