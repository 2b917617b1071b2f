"""The bounds of the queue over all classes, and the tickets that a full queue drops."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class QueueSettings(BaseModel):
    """``[queue]`` of a preset: the bounds over all classes, and which requests are refused beyond them.

    ``evict``: when the queue is full, a more urgent arrival evicts the newest ticket of the least urgent class; and
    under an order that is fair between tenants, the newest ticket of the tenant with the longest queue gives its place
    to one of another tenant of its class.
    ``refuse_infeasible``: refuse an arrival at once if, by the predicted wait, it would time out in the queue.
    ``shed_unreachable``: drop a request at dispatch if it can no longer get a first token in time.
    ``make_room``: at full seats a more urgent request takes the place of a running one that has sent no token yet,
    which goes back to its own place in the queue.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    max_waiting: int = Field(ge=0, le=1_000_000)
    max_waiting_tokens: int | None = Field(default=None, ge=0)
    max_waiting_bytes: int | None = Field(default=None, ge=0)
    evict: bool = True
    refuse_infeasible: bool = True
    shed_unreachable: bool = True
    make_room: bool = True
