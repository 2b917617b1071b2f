"""Bins of similar predicted output length: multi-bin batching (Guldogan, Kunde, Lee, Pedarsani, arXiv 2412.04504).

Batches are formed among requests of similar predicted length, since a batch runs as long as its longest member. The
paper cuts at equal mass; where many requests share one length those edges coincide and one bin gets all requests. Here
the edges minimise what the paper wants minimal,

    sum over bins of  P(bin) * E[longest of a batch | bin],    E[max] = sum over v of v * (F(v)^B - F(v-)^B)

for batches of B, by a dynamic program over the distinct lengths of a bounded sample, equal lengths always together. A
further bin is used only if the saving is half a percent: requests of one length stay in one bin.

Edges are refitted after 32, 64, ... arrivals and then after every 512; a fit costs at most 64^2/2 steps for each bin.
``bin_of`` is a binary search; between refits a length keeps its bin. Weak spots: until the first fit all are in bin 0;
prediction errors are not considered; beyond 64 distinct lengths neighbours are merged into groups of similar mass;
there is no gain under continuous batching, where no request waits for the longest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from math import sqrt

_SAMPLE = 512
_FIRST_FIT = 32
_GROUPS = 64
_MIN_SAVING = 0.005
_MAX_MEMBERS = 64  # of a batch, in E[max]: larger ones change little, and the powers stay within a float


class LengthBins:
    """At most ``k`` bins of predicted output length, bin 0 the shortest, for batches of about ``members``."""

    def __init__(self, k: int, members: int = 32) -> None:
        self._k = k
        self._members = min(members, _MAX_MEMBERS)
        self._recent: deque[float] = deque(maxlen=_SAMPLE)
        self._until_fit = self._next_fit = _FIRST_FIT
        self._edges: list[float] = []

    def bin_of(self, tokens: float) -> int:
        """The bin of a predicted length, 0 to ``k`` - 1."""
        return bisect_left(self._edges, tokens)

    def seen(self, tokens: float) -> None:
        """Learn from an arrival's predicted length. Some calls refit the edges."""
        self._recent.append(tokens)
        self._until_fit -= 1
        if not self._until_fit:
            self._until_fit = self._next_fit
            self._next_fit = min(2 * self._next_fit, _SAMPLE)
            if self._k > 1:
                self._edges = _edges(_groups(self._recent), self._k, self._members)


#: The number of samples, the shortest of them, and the longest.
_Group = tuple[int, float, float]


def _groups(sample: deque[float]) -> list[_Group]:
    """At most ``_GROUPS`` runs of neighbouring lengths, shortest first; equal lengths are never apart."""
    least = len(sample) / _GROUPS
    groups: list[_Group] = []
    count, shortest = 0, 0.0
    for tokens, times in sorted(Counter(sample).items()):
        shortest = shortest if count else tokens
        count += times
        if count >= least:
            groups.append((count, shortest, tokens))
            count = 0
    if count:
        groups.append((count, shortest, tokens))
    return groups


def _edges(groups: list[_Group], k: int, members: int) -> list[float]:
    """The cuts between neighbouring groups, each at their geometric mean."""
    cuts = _cuts(_costs(groups, members), k)
    return [sqrt(max(groups[cut - 1][2], 1.0) * max(groups[cut][1], 1.0)) for cut in cuts]


def _costs(groups: list[_Group], members: int) -> list[list[float]]:
    """``[first][end]``: the cost of a bin of the groups first to end - 1: its count times its expected longest."""
    costs = [[0.0] * (len(groups) + 1) for _ in groups]
    for first, row in enumerate(costs):
        count, below, weighted = 0, 0.0, 0.0
        for end in range(first + 1, len(row)):
            times, _, longest = groups[end - 1]
            count += times
            power = float(count) ** members
            weighted += longest * (power - below)
            below = power
            row[end] = count * weighted / power
    return costs


def _cuts(costs: list[list[float]], k: int) -> list[int]:
    """The first group of every bin but bin 0, at the least total cost; no bin that saves too little."""
    size = len(costs)
    best = list(costs[0])  # best[end]: the least cost of the first ``end`` groups with the bins so far
    starts: list[list[int]] = []  # of the last bin, for each number of bins from two on and each end
    for bins in range(2, min(k, size) + 1):
        found, start = list(best), [0] * (size + 1)
        for end in range(bins, size + 1):
            found[end], start[end] = min((best[cut] + costs[cut][end], cut) for cut in range(bins - 1, end))
        if found[size] > (1 - _MIN_SAVING) * best[size]:
            break
        best = found
        starts.append(start)
    cuts = [size]
    for start in reversed(starts):
        cuts.append(start[cuts[-1]])
    return cuts[:0:-1]
