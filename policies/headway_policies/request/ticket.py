"""The policies' view of a request: identity, class, size and time.

Nothing of its content: the text of a prompt never enters this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

#: The assumed ``max_tokens`` of a request that does not set it.
DEFAULT_MAX_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The longest time of each stage, in seconds; None: no time-out.

    ``queue_s``, ``first_token_s`` and ``total_s`` count from the arrival, ``stall_s`` from the last token.
    """

    queue_s: float | None = None
    first_token_s: float | None = None
    stall_s: float | None = None
    total_s: float | None = None

    def shortened_by(self, other: Timeouts) -> Timeouts:
        """The shorter of the two, stage by stage; a time-out that only one of them sets applies."""
        if other is NO_TIMEOUTS:
            return self
        return Timeouts(
            shorter(self.queue_s, other.queue_s),
            shorter(self.first_token_s, other.first_token_s),
            shorter(self.stall_s, other.stall_s),
            shorter(self.total_s, other.total_s),
        )

    def before_first_token_s(self) -> float | None:
        """The longest time in the queue: the shortest of all time-outs that count from the arrival."""
        return shorter(shorter(self.queue_s, self.first_token_s), self.total_s)


NO_TIMEOUTS = Timeouts()


@dataclass(frozen=True, slots=True)
class Ticket:
    """A request, as the desk sees it.

    ``arrived_s`` is read from the same clock as every ``now_s``. ``seats`` is the number of sequences the request will
    occupy in the engine (OpenAI's ``n``). ``asked`` holds the time-outs that the client requests; they can only
    shorten those of its class. ``prompt_tokens`` may be an estimate, 0 when unknown. ``may_wait`` is False where the
    client prefers a refusal to queueing. ``prefix`` has the hashes of the beginnings of its prompt (``prefix``); empty
    where nothing compares them. ``share`` weighs its tenant against others of its class, 1 as much as any other.
    ``adapter`` names the LoRA adapter that it is computed with; None: the model itself.
    """

    id: int
    class_name: str
    arrived_s: float
    tenant: str = ""
    seats: int = 1
    asked: Timeouts = NO_TIMEOUTS
    prompt_tokens: int = 0
    prompt_bytes: int = 0
    max_tokens: int | None = None
    may_wait: bool = True
    prefix: tuple[int, ...] = ()
    share: float = 1.0
    adapter: str | None = None

    def __post_init__(self) -> None:
        if self.seats < 1:
            raise ValueError(f"ticket {self.id}: seats must be at least 1, not {self.seats}")
        if not 0 < self.share < inf:
            raise ValueError(f"ticket {self.id}: share must be above 0 and finite, not {self.share}")

    @property
    def total_tokens(self) -> int:
        """The tokens that the request can occupy in the engine: for each sequence the prompt and all it may
        generate.
        """
        return self.seats * (self.prompt_tokens + (DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens))


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that a request used, summed over its sequences."""

    prompt_tokens: int
    output_tokens: int


def shorter(first: float | None, other: float | None) -> float | None:
    """The shorter of two times; None: no time."""
    if other is None:
        return first
    return other if first is None or other < first else first
