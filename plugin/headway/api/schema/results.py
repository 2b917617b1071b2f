"""The answers to commands: the fallback ladder, recycling, pause, resume, drain, warm-up and silences."""

from __future__ import annotations

from pydantic import Field

from headway.api.schema.base import Answer


class FallbackModel(Answer):
    """The other model that may answer, and the state of its circuit breaker: closed, open or half_open.

    In the place of a model may be a ``fixed reply``.
    """

    model: str
    breaker: str
    in_flight: int


class FallbackMove(Answer):
    """A move of the fallback ladder."""

    time: str
    before: str
    after: str
    trigger: str


class FallbackState(Answer):
    """The fallback ladder."""

    rung: str
    ordered: str | None = Field(default=None, description="The rung an operator has set; null: it is automatic.")
    trigger: str | None = Field(default=None, description="The trigger of the last move.")
    in_force: list[str] = Field(default=[], description="The rungs in force, the mildest first.")
    usable: list[str] = Field(default=[], description="The rungs that would change something under this preset.")
    fallback_model: FallbackModel | None = None
    moves: list[FallbackMove] = Field(default=[], description="The last moves, the newest first.")


class RecycleAccepted(Answer):
    """A recycle has begun; the engine is replaced when its seats are free, and the new one is up if memory allows."""

    accepted: bool
    seats_taken: int


class AdmissionChanged(Answer):
    """The state of admission after a command, and the command's effect on present requests."""

    state: str = Field(description="open, paused or draining")
    holds: list[str] = Field(description="The causes for which nothing is dispatched; a resume ends the operator's.")
    running: int = Field(description="Requests that the engine has now: they finish.")
    waiting: int = Field(description="Requests that wait now: bounded, and their time-outs go on.")
    dispatched: int = Field(default=0, description="Waiting requests that the command has sent to the engine at once.")
    refused: int = Field(default=0, description="Waiting requests that the command has refused, with Retry-After.")


class WarmupAccepted(Answer):
    """A warm-up has begun beside the traffic; its end is in the audit log, its figures in the status."""

    accepted: bool
    batch_size: int = Field(description="The seats that were free: its largest batch.")
    running: int = Field(description="Requests that the engine has now: their tokens come more slowly meanwhile.")
    waiting: int = Field(description="Requests that wait now; they are dispatched as before.")


class Silence(Answer):
    """A silence of an alert: dashboards list the alert apart until the end."""

    alert: str
    since: str
    ends: str
    actor: str
    reason: str = ""


class Silences(Answer):
    """The silences of alerts after a command, in the order of their ends."""

    silences: list[Silence]
