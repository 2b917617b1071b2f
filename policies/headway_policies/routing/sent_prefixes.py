"""The prefixes that were sent to one instance: which beginnings of prompts it probably holds in its prefix cache.

The least recently sent blocks are forgotten first. The memory is coarser than a model of the cache (``prediction``),
which needs the KV space and the hits of the engine; what an instance of another make does not say is not assumed here.
"""

from __future__ import annotations

from collections import OrderedDict

from headway_policies.request import PREFIX_TOKENS

_MAX_BLOCKS = 4096


class SentPrefixes:
    """``CachedPrefixes`` of one instance. A call is O(blocks of the prompt)."""

    def __init__(self, max_blocks: int = _MAX_BLOCKS) -> None:
        self._max_blocks = max_blocks
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def sent(self, prefix: tuple[int, ...]) -> None:
        """A prompt with these prefix hashes went there."""
        for block in reversed(prefix[: len(PREFIX_TOKENS)]):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._max_blocks:
            self._blocks.popitem(last=False)

    def matched_tokens(self, prefix: tuple[int, ...]) -> int:
        """The tokens of a prompt with these hashes that the instance probably holds."""
        found = 0
        for block, tokens in zip(prefix, PREFIX_TOKENS, strict=False):
            if block not in self._blocks:
                break
            found = tokens
        return found
