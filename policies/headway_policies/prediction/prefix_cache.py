"""A model of the engine's prefix cache: which beginnings of prompts it probably still holds.

vLLM keeps the KV blocks of a finished request until it needs their room, and evicts the least recently used first, the
end of a prompt before its beginning (vllm/v1/core/block_pool.py). So does this model, with the blocks of ``prefix`` as
in a radix tree: a block stands for the whole beginning that it ends, prompts share those that they have in common, and
a block is evicted before the one that it continues. The tokens that no other prompt can share, the rest of a prompt and
its answer, take room as well and are never found again.

The room is the engine's KV space, as it reports it, times a factor. Where the engine finds fewer tokens in its cache
than the model expected, by a tenth of all prompt tokens, the factor falls by a tenth, to an eighth at the least; else
it rises again. The factor is decided after each ``_CHECKED_TICKETS`` dispatches. Only shares are compared, so that an
estimate of tokens that is off by a factor does no harm.

Cost: O(blocks of the ticket) a call, with amortised evictions; memory: one entry for each 16 tokens of the room at
most. Known weak spots: the blocks of running sequences are not pinned; a request of several front ends of one engine is
known to its own only; the rest of a prompt that is repeated as a whole takes room twice.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol
from weakref import WeakSet

from headway_policies.request import BLOCK_TOKENS, PREFIX_TOKENS, Ticket

#: The assumed KV space until the engine reports its own.
UNKNOWN_TOKENS = 65_536
#: The least that the part of a request takes which no other one shares: a KV block of vLLM.
_LEAST_TOKENS = 16
_CHECKED_TICKETS = 64
_TOLERANCE_RATIO = 0.1
_SMALLER, _LARGER, _LEAST_FACTOR = 0.9, 1.05, 0.125


class Watcher(Protocol):
    """An observer of blocks that come into the cache."""

    def cached(self, block: int) -> None:
        """This block is in the cache from now on."""
        ...


class PrefixCache:
    """The blocks that the engine probably holds. ``factor`` is the part of its KV space that the model uses.

    ``changes`` counts the calls that may have changed what it holds. ``expected_ratio`` and ``hit_ratio`` are the
    shares of prompt tokens that were expected in the cache and found there when that was compared last; None before.
    """

    def __init__(self, capacity_tokens: int = UNKNOWN_TOKENS) -> None:
        self.factor = 1.0
        self.changes = 0
        self.expected_ratio: float | None = None
        self.hit_ratio: float | None = None
        self._capacity_tokens = capacity_tokens
        self._tokens = 0
        self._blocks: OrderedDict[int, int] = OrderedDict()
        self._unshared = 0
        self._watchers: WeakSet[Watcher] = WeakSet()
        self._dispatched = 0
        self._prompt_tokens = self._expected_tokens = 0
        self._queried_tokens = self._hit_tokens = 0

    def __contains__(self, block: int) -> bool:
        return block in self._blocks

    def __len__(self) -> int:
        return len(self._blocks)

    def watch(self, watcher: Watcher) -> None:
        """Tell a watcher of every block that comes in, as long as the watcher exists."""
        self._watchers.add(watcher)

    def matched_tokens(self, ticket: Ticket) -> int:
        """The tokens of a ticket's prompt that the engine probably holds."""
        found = 0
        for block, tokens in zip(ticket.prefix, PREFIX_TOKENS, strict=False):
            if block not in self._blocks:
                break
            found = tokens
        return found

    def dispatched(self, ticket: Ticket, expected_tokens: float) -> None:
        """The engine gets this ticket, which will use so many tokens: its prompt is in the cache from now on."""
        self._prompt_tokens += ticket.prompt_tokens
        self._expected_tokens += min(self.matched_tokens(ticket), ticket.prompt_tokens)
        self._dispatched += 1
        prefix = ticket.prefix[: len(PREFIX_TOKENS)]
        shared_tokens = PREFIX_TOKENS[len(prefix) - 1] if prefix else 0
        again_tokens = (ticket.seats - 1) * ticket.prompt_tokens  # the sequences of a request share their prompt
        self._unshared -= 1
        self._add(self._unshared, max(int(expected_tokens) - again_tokens - shared_tokens, _LEAST_TOKENS))
        self._use(prefix)
        self._evict()

    def ended(self, ticket: Ticket) -> None:
        """The engine is done with a ticket, whose blocks it could not evict until now."""
        self._use(ticket.prefix[: len(PREFIX_TOKENS)])
        self._evict()

    def resize(self, capacity_tokens: int) -> None:
        """The engine has so much KV space."""
        if capacity_tokens != self._capacity_tokens:
            self._capacity_tokens = capacity_tokens
            self._evict()

    def found(self, queried_tokens: int, hit_tokens: int) -> None:
        """The engine looked for so many prompt tokens in its own cache, and found so many of them."""
        self._queried_tokens += queried_tokens
        self._hit_tokens += hit_tokens
        if self._dispatched >= _CHECKED_TICKETS and self._queried_tokens and self._prompt_tokens:
            self._correct()

    def clear(self) -> None:
        """The engine's cache is empty."""
        self.changes += 1
        self._blocks.clear()
        self._tokens = 0

    def _use(self, prefix: tuple[int, ...]) -> None:
        """The blocks of a prompt are the most recently used ones, the first of them most of all."""
        news = []
        for block, tokens in zip(reversed(prefix), reversed(BLOCK_TOKENS[: len(prefix)]), strict=True):
            if block in self._blocks:
                self._blocks.move_to_end(block)
            else:
                self._add(block, tokens)
                news.append(block)
        for watcher in self._watchers if news else ():
            for block in news:
                watcher.cached(block)

    def _add(self, block: int, tokens: int) -> None:
        self._blocks[block] = tokens
        self._tokens += tokens

    def _evict(self) -> None:
        self.changes += 1
        room_tokens = self._capacity_tokens * self.factor
        while self._tokens > room_tokens and self._blocks:
            self._tokens -= self._blocks.popitem(last=False)[1]

    def _correct(self) -> None:
        """Compare the shares of prompt tokens that were expected in the cache and found there."""
        self.expected_ratio = self._expected_tokens / self._prompt_tokens
        self.hit_ratio = self._hit_tokens / self._queried_tokens
        too_large = self.expected_ratio > self.hit_ratio + _TOLERANCE_RATIO
        self.factor = max(self.factor * _SMALLER, _LEAST_FACTOR) if too_large else min(self.factor * _LARGER, 1.0)
        self._dispatched = self._prompt_tokens = self._expected_tokens = 0
        self._queried_tokens = self._hit_tokens = 0
        self._evict()
