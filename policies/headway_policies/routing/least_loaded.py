"""Least loaded: the instance with the largest share of free seats, less where its KV cache is full.

    score = free_share + kv * room + affinity * (cached prompt tokens / prompt tokens)
    room  = free KV tokens / KV tokens of the largest cache; 1 - kv_use where the size of one is not known

Of the instances that have a free seat for each sequence of the request the one with the largest score is chosen; of
equal ones that which stands first. An instance that is kept for the class of the request goes before the others, and
one that is kept for other classes after them: a group of its own for an urgent class, whose free seats serve all when
nothing else is free. Where none has so many, the one with the most is chosen. Join-shortest-queue on the number of
running sequences is near the optimum for the time to the first token; the expected work of a request is a poor guide to
it, and does not count here. ``kv`` is larger for long prompts, so that those go where there is room: in tokens, for a
small cache that is half empty may have less than a large one that is nearly full. The utilisation of the GPU does not
count: an engine that decodes one sequence keeps it as busy as one that is full.

The affinity follows D2LPM (Cao et al., "Locality-aware Fair Scheduling in LLM Serving", arXiv 2501.14312), which sends
a request to the worker that holds most of its prefix as long as a deficit counter for that worker allows it. Requests
are bound late here, so nothing has to be counted: the deficit is the load itself, in free seats.

Bound: the ``free_share`` of the chosen instance is below the largest of those with room for the request, and kept for
it as this one is, by no more than ``kv + affinity``, and by no more than ``kv`` where no prefix is known.

Cost: O(instances * blocks of the prompt).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway_policies.routing.instance import Instance
from headway_policies.routing.router import Demand


@dataclass(frozen=True, slots=True)
class LeastLoaded:
    """The ``Router`` of the product. Prompts from ``long_tokens`` on are long.

    Raises ValueError for a ``kv``, ``kv_long`` or ``affinity`` that is not between 0 and 1.
    """

    kv: float = 0.1
    kv_long: float = 0.5
    affinity: float = 0.2
    long_tokens: int = 2048

    def __post_init__(self) -> None:
        for name, value in (("kv", self.kv), ("kv_long", self.kv_long), ("affinity", self.affinity)):
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"least loaded: {name} must be between 0 and 1, not {value}")

    def choose(self, demand: Demand, instances: Sequence[Instance]) -> str | None:
        """The name of the instance to send the request to; None where no seat is free."""
        kv = self.kv if demand.prompt_tokens < self.long_tokens else self.kv_long
        sizes = [instance.kv_tokens for instance in instances]
        largest = max((size for size in sizes if size is not None), default=0) if None not in sizes else 0
        best, best_rank = None, (False, 0, 0.0)
        for instance in instances:
            free = instance.free
            if not free:
                continue
            rank = (False, 0, float(free))
            if free >= demand.seats:
                rank = (True, instance.kept_for(demand.class_name), self._score(instance, kv, largest, demand))
            if best is None or rank > best_rank:
                best, best_rank = instance.name, rank
        return best

    def _score(self, instance: Instance, kv: float, largest_tokens: int, demand: Demand) -> float:
        size = instance.kv_tokens / largest_tokens if instance.kv_tokens and largest_tokens else 1.0
        score = instance.free_share + kv * size * (1.0 - instance.kv_use)
        if instance.prefixes is not None and demand.prefix and demand.prompt_tokens:
            matched_tokens = instance.prefixes.matched_tokens(demand.prefix)
            score += self.affinity * min(matched_tokens / demand.prompt_tokens, 1.0)
        return score
