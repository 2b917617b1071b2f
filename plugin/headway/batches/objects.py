"""The files and batches of tenants: what is stored of each, and the objects of OpenAI's API that clients see."""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field

from headway.http.access.identity import Sender

_DAY_S: Final = 86_400
#: Files and ended batches are kept for so long, as at OpenAI.
KEPT_S: Final = 30 * _DAY_S


class Status(StrEnum):
    """The state of a batch, in OpenAI's words."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


ENDED: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.EXPIRED, Status.CANCELLED})


class ExpiresAfter(Struct, frozen=True):
    """The time that a client gives a file, with OpenAI's bounds."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Meta(ge=3600, le=KEPT_S)]


class StoredFile(Struct, frozen=True):
    """A file: an input, or the output or errors of a batch. ``kept_s`` is the time after which it expires."""

    id: str
    tenant: str
    name: str
    purpose: str
    size_bytes: int
    created_s: int
    kept_s: int = KEPT_S

    @property
    def expires_s(self) -> int:
        """When it expires, in seconds since 1970."""
        return self.created_s + self.kept_s

    def shown(self) -> dict[str, Any]:
        """The object that a client sees."""
        return {
            "id": self.id,
            "object": "file",
            "bytes": self.size_bytes,
            "created_at": self.created_s,
            "expires_at": self.expires_s,
            "filename": self.name,
            "purpose": self.purpose,
            "status": "processed",
        }


class LineProblem(Struct, frozen=True):
    """A line for which a batch was refused; ``line`` None: the whole file."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class Batch(Struct):
    """A batch. ``output_id`` and ``errors_id`` name its files from the beginning; clients see them at the end.

    ``ending`` is the state in which a batch that is finalised will end, ``times_s`` when it came into each state,
    ``late`` whether it would miss its window at its pace, ``needed_s`` what its lines still need at that. ``seen_s`` is
    when it was last written: what its window had left then is what it has left when a server starts (0: not known).
    ``files_kept_s`` is how long its output and errors are kept.
    """

    id: str
    sender: Sender
    endpoint: str
    input_id: str
    window: str
    created_s: int
    expires_s: int
    output_id: str
    errors_id: str
    metadata: dict[str, str] | None = None
    seen_s: int = 0
    status: Status = Status.VALIDATING
    ending: Status = Status.COMPLETED
    total: int = 0
    completed: int = 0
    failed: int = 0
    late: bool = False
    needed_s: float | None = None
    has_output: bool = False
    has_errors: bool = False
    files_kept_s: int = KEPT_S
    problems: list[LineProblem] = field(default_factory=list)
    times_s: dict[Status, int] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left to do."""
        return self.status in ENDED

    @property
    def left(self) -> int:
        """The lines that are not over."""
        return self.total - self.completed - self.failed

    def become(self, status: Status, now_s: float) -> None:
        """Change the state, and note when."""
        self.status = status
        self.times_s[status] = int(now_s)

    def shown(self) -> dict[str, Any]:
        """The object that a client sees."""
        problems = [
            {"code": found.code, "message": found.message, "line": found.line, "param": found.param}
            for found in self.problems
        ]
        times = {f"{status}_at": self.times_s.get(status) for status in Status if status is not Status.VALIDATING}
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "errors": {"object": "list", "data": problems} if problems else None,
            "input_file_id": self.input_id,
            "completion_window": self.window,
            "status": self.status,
            "output_file_id": self.output_id if self.ended and self.has_output else None,
            "error_file_id": self.errors_id if self.ended and self.has_errors else None,
            "created_at": self.created_s,
            "expires_at": self.expires_s,
            **times,
            "request_counts": {"total": self.total, "completed": self.completed, "failed": self.failed},
            "metadata": self.metadata,
        }


def new_file_id() -> str:
    """The id of a file, which cannot be guessed."""
    return f"file-{secrets.token_hex(16)}"


def new_batch_id() -> str:
    """The id of a batch, which cannot be guessed."""
    return f"batch_{secrets.token_hex(16)}"
