"""A request in a batcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Generic

from headway.batcher.function import R, T
from headway.batcher.request import InferenceRequest
from headway_policies import Ticket

_LISTED = 16  # members of a failed batch that its log line names
_MAX_ID_CHARS = 64


@dataclass(slots=True, eq=False)
class Member(Generic[T, R]):
    """A request: its item, and the future of its result; ``dispatched`` once it is in a batch."""

    id: int
    item: T
    answer: asyncio.Future[R]
    ticket: Ticket
    dispatched: bool = False

    def __str__(self) -> str:
        """The id, class and size for a log line: nothing of the item itself."""
        own = self.item.request_id if isinstance(self.item, InferenceRequest) else str(self.id)
        shown = "".join(letter if letter.isprintable() else "?" for letter in str(own)[:_MAX_ID_CHARS])
        return f"{shown} ({self.ticket.class_name}, {self.ticket.total_tokens} tokens)"


def listed(members: Sequence[Member[Any, Any]]) -> str:
    """The members for a log line: the first of them."""
    more = f" and {len(members) - _LISTED} more" if len(members) > _LISTED else ""
    return ", ".join(map(str, members[:_LISTED])) + more


def full_batch(items: Sequence[T], size_of: Callable[[T], int], most: int, most_tokens: int | None) -> list[T]:
    """The largest batch that these items make, over and over, within so many tokens; one that is larger makes one
    alone, and none makes none.
    """
    batch, tokens = list[T](), 0
    for item in islice(cycle(items), most):
        tokens += size_of(item)
        if batch and most_tokens is not None and tokens > most_tokens:
            break
        batch.append(item)
    return batch
