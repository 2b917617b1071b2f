"""The audit log."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from headway.api.schema.base import Answer


class AuditKind(StrEnum):
    """The subject of an entry of the audit log."""

    CHANGE = "change"  # what was changed, or failed to be
    NOOP = "noop"  # a command that was carried out and changed nothing, or was a repetition
    REFUSED = "refused"  # a refused command
    READ = "read"  # a refused read


class AuditEntry(Answer):
    """A change, or an attempt that changed nothing.

    ``times`` counts the same attempt, whose last one was at ``time``.
    """

    time: str
    actor: str
    role: str
    address: str
    action: str
    before: str
    after: str
    revision: int
    reason: str
    result: str
    times: int = Field(default=1, description="How often the same attempt was made.")


class AuditLog(Answer):
    """The audit log, the newest entry first."""

    entries: list[AuditEntry]
