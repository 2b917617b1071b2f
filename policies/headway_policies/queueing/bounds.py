"""The bounds of the queue over all classes, and what is dropped when it is full."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class QueueSettings(BaseModel):
    """``[queue]`` of a preset: the bounds over all classes, and whom to turn away beyond them.

    ``evict``: a newcomer of a more urgent class pushes out the worst waiting one when there is no room.
    ``refuse_infeasible``: refuse at once who would, by the predicted wait, run out of time in the queue.
    ``shed_unreachable``: drop at dispatch who can no longer get a first token in time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    max_waiting: int = Field(ge=0, le=1_000_000)
    max_waiting_tokens: int | None = Field(default=None, ge=0)
    max_waiting_bytes: int | None = Field(default=None, ge=0)
    evict: bool = True
    refuse_infeasible: bool = True
    shed_unreachable: bool = True
