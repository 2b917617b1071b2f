"""Who may wait, how many of them, and for how long?"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class PriorityClass(BaseModel):
    """The terms on which one class of requests is served. A larger ``priority`` is more urgent."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    priority: int = Field(ge=-1000, le=1000)
    max_waiting: int = Field(ge=0, le=1_000_000)
    queue_timeout_s: float = Field(gt=0, le=86_400)
    total_timeout_s: float = Field(gt=0, le=86_400)
    service_tiers: tuple[str, ...] = Field(default=(), strict=False)  # TOML has lists only

    def queue_deadline_s(self, arrived_s: float, client_deadline_s: float | None) -> float:
        """When a waiting request of this class expires: the client may only shorten the class's own time."""
        own_s = arrived_s + min(self.queue_timeout_s, self.total_timeout_s)
        return own_s if client_deadline_s is None else min(own_s, client_deadline_s)

    def total_deadline_s(self, arrived_s: float, client_deadline_s: float | None) -> float:
        """When a request of this class must have ended: the client may only shorten it."""
        own_s = arrived_s + self.total_timeout_s
        return own_s if client_deadline_s is None else min(own_s, client_deadline_s)
