"""What may a policy know of a request?

Nothing of its content: identity, class, size and time. The text of a prompt never enters this package.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ticket:
    """One request's passage through the desk.

    ``arrived_s`` and ``deadline_s`` are read from the same clock as every ``now_s``. ``deadline_s`` is what the
    client itself asked for; it can only shorten the time its class allows. ``seats`` is the number of sequences
    the request will occupy in the engine (OpenAI's ``n``).
    """

    id: int
    class_name: str
    arrived_s: float
    tenant: str = ""
    seats: int = 1
    deadline_s: float | None = None
    prompt_tokens: int | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.seats < 1:
            raise ValueError(f"ticket {self.id}: seats must be at least 1, not {self.seats}")
