"""The KV blocks of a model engine with a prefix cache: which are shared, and which are free but still found again.

As in vLLM (v1/core/block_pool.py): sequences with a prefix in common hold its whole blocks together. Blocks that are
free keep what they had until they are taken for something else: the one that has been free longest first, of the blocks
that came free together the end of a sequence before its beginning.

Known weak spots: only the stated prefix is shared, not the rest of a prompt that comes again; the blocks of a prefix
are found from the admission of its first sequence on, as in vLLM, also where its prompt is computed in several steps.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

_NOT_SHARED = 0


class PrefixBlocks:
    """The free blocks in the order in which they are taken, and those of each prefix.

    A prefix is a number, 0 is none. ``blocks`` of a sequence are all that it holds, ``shared`` those of its prefix.
    """

    def __init__(self, blocks: int) -> None:
        self._free: OrderedDict[tuple[int, int], int] = OrderedDict({(_NOT_SHARED, 0): blocks})
        self._filled: dict[int, int] = {}
        self._holders: Counter[int] = Counter()
        self._releases = 0

    def found(self, prefix: int, shared: int) -> int:
        """The number of blocks of a prefix that are there, in use or free."""
        return min(self._filled.get(prefix, 0), shared)

    def wanted(self, prefix: int, shared: int, blocks: int) -> int:
        """The free blocks that the admission of a sequence takes: it shares those that others use."""
        return blocks - (self.found(prefix, shared) if self._holders[prefix] else 0)

    def admit(self, prefix: int, shared: int, blocks: int) -> None:
        """A sequence is admitted, with so many blocks of its prefix and so many in all."""
        found = self.found(prefix, shared)
        if shared:
            if not self._holders[prefix]:
                self._free.pop((prefix, 0), None)
            self._holders[prefix] += 1
            self._filled[prefix] = shared
        self.take(blocks - found)

    def take(self, blocks: int) -> None:
        """Take blocks, whose content is lost."""
        while blocks:
            place, free = next(iter(self._free.items()))
            taken = min(blocks, free)
            blocks -= taken
            if place[0] != _NOT_SHARED:
                self._filled[place[0]] -= taken
            if taken < free:
                self._free[place] = free - taken
            else:
                del self._free[place]

    def release(self, prefix: int, shared: int, blocks: int) -> int:
        """A sequence gives back its blocks; how many are free now."""
        self._releases += 1
        freed = blocks - shared
        if freed:
            self._free[_NOT_SHARED, self._releases] = freed
        if shared:
            self._holders[prefix] -= 1
            if not self._holders[prefix]:
                self._free[prefix, 0] = shared
                freed += shared
        return freed
