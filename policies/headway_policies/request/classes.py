"""The terms of a priority class: its priority, queue bounds, time-outs, share, and allowed degradations."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from headway_policies.request.objective import FirstTokenObjective, InterTokenObjective
from headway_policies.request.ticket import Timeouts

_DAY_S = 86_400


class PriorityClass(BaseModel):
    """The terms on which one class of requests is served. A larger ``priority`` is more urgent.

    A time-out that is left out does not exist; a client may still set one. ``ttft_slo_s`` is the objective for the time
    from a request's arrival to its first token, ``inter_token_slo_ms`` the one between tokens: an objective ends no
    request that could still be served, it says what is refused while more arrives than can be served within it.
    ``burst_s`` says how long the queue may be too long for that before anything is refused (twice ``ttft_slo_s``).
    ``share`` is used by the weighted order. Less urgent classes leave the ``reserved_seats`` free; left out, they
    follow from the ``ttft_slo_s`` and the demand of the class, and are 0 without an objective.
    ``fallback_max_tokens``, ``may_bypass``, ``sheddable`` and ``may_divert`` say how the fallback ladder may degrade
    requests of this class.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    priority: int = Field(ge=-1000, le=1000)
    max_waiting: int = Field(ge=0, le=1_000_000)
    max_waiting_tokens: int | None = Field(default=None, ge=0)
    max_waiting_bytes: int | None = Field(default=None, ge=0)
    queue_timeout_s: float | None = Field(default=None, gt=0, le=_DAY_S)
    first_token_timeout_s: float | None = Field(default=None, gt=0, le=_DAY_S)
    stall_timeout_s: float | None = Field(default=None, gt=0, le=_DAY_S)
    total_timeout_s: float | None = Field(default=None, gt=0, le=_DAY_S)
    ttft_slo_s: FirstTokenObjective | None = None
    burst_s: float | None = Field(default=None, ge=0, le=_DAY_S)
    inter_token_slo_ms: InterTokenObjective | None = None
    share: float | None = Field(default=None, gt=0, le=1)
    reserved_seats: int | None = Field(default=None, ge=0, le=65_536)
    service_tiers: tuple[str, ...] = Field(default=(), strict=False)  # TOML has lists only
    fallback_max_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    may_bypass: bool = False
    sheddable: bool = False
    may_divert: bool = False

    @property
    def relative(self) -> bool:
        """Whether an objective follows the engine."""
        return isinstance(self.ttft_slo_s, str) or isinstance(self.inter_token_slo_ms, str)

    def timeouts(self) -> Timeouts:
        """The time-outs of this class."""
        return Timeouts(self.queue_timeout_s, self.first_token_timeout_s, self.stall_timeout_s, self.total_timeout_s)
