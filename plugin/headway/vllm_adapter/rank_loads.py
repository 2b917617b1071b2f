"""The load of an engine with several ranks: that of all of them, by the last step of each."""

from __future__ import annotations

from typing import Any

from headway_policies.limits import RankLoad


class RankLoads:
    """The last load of each rank that has made a step."""

    def __init__(self) -> None:
        self._loads: dict[int, RankLoad] = {}

    def add(self, rank: int, own: RankLoad) -> dict[str, Any]:
        """Note the load of a rank; returns the part of a ``Load`` that it is: the sequences of all ranks, the KV use of
        the fullest.
        """
        self._loads[rank] = own
        if len(self._loads) == 1:
            return {**own._asdict(), "rank": rank}
        ranks = self._loads.values()
        total = RankLoad(
            sum(rank.running for rank in ranks),
            sum(rank.waiting for rank in ranks),
            sum(rank.deferred for rank in ranks),
            max(rank.kv_usage_ratio for rank in ranks),
        )
        return total._asdict() | {"rank": rank, "own": own}

    def forget(self) -> None:
        """Forget the loads of the old ranks, which have been replaced."""
        self._loads.clear()
