"""The settings of the queue's order, and the order and disciplines they name.

``StrictOrder``: the most urgent class first. Known weak spot: a constant stream of urgent requests starves the classes
below for as long as it lasts; only their queue time-out ends the wait. ``AgeingOrder`` and ``WeightedOrder`` bound that
wait; each states its bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from headway_policies.import_path import find_class, named_policy
from headway_policies.prediction import PrefixCache
from headway_policies.queueing.ageing import AgeingOrder
from headway_policies.queueing.class_queues import MakeDiscipline
from headway_policies.queueing.disciplines import Discipline, Edf, Fifo, Hrrn
from headway_policies.queueing.fair_share import FairShare
from headway_policies.queueing.order import Order
from headway_policies.queueing.prefix_share import MAX_OVERTAKES, QUANTUM_TOKENS, PrefixShare
from headway_policies.queueing.safe_order import SafeOrder
from headway_policies.queueing.strict import StrictOrder
from headway_policies.queueing.weighted import WeightedOrder
from headway_policies.request import PriorityClass


class OrderSettings(BaseModel):
    """``[ordering]`` of a preset: which ticket is dispatched next, between the classes and inside one.

    ``between``: ``strict``, ``ageing`` or ``weighted``; ``inside``: ``fifo``, ``edf``, ``hrrn``, ``fair`` or
    ``prefix``. Either may be the import path ``package.module:Class`` of a custom policy. ``ageing_step_s`` is the wait
    after which a class is as urgent as the next class above it. Under ``prefix`` a tenant may be served
    ``prefix_quantum_tokens`` more than another one, and its oldest ticket be overtaken by ``prefix_max_overtakes`` of
    its others in a row.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    between: Annotated[str, named_policy("strict", "ageing", "weighted")] = "weighted"
    inside: Annotated[str, named_policy("fifo", "edf", "hrrn", "fair", "prefix")] = "fair"
    ageing_step_s: float = Field(default=10.0, gt=0, le=86_400)
    prefix_quantum_tokens: int = Field(default=QUANTUM_TOKENS, ge=0, le=1_000_000_000)
    prefix_max_overtakes: int = Field(default=MAX_OVERTAKES, ge=0, le=1_000_000)

    @property
    def by_shares(self) -> bool:
        """Whether each class has its share of the tokens."""
        return self.between == "weighted"

    @property
    def by_urgency(self) -> bool:
        """Whether the classes above surely go first; a custom order may do neither."""
        return self.between in ("strict", "ageing")

    @property
    def by_prefix(self) -> bool:
        """Whether prompts are compared: then a ticket needs the hashes of its prefix."""
        return self.inside == "prefix"

    @property
    def by_tenant(self) -> bool:
        """Whether the tenants of a class have equal rights, or those of their shares."""
        return self.inside in ("fair", "prefix")


def make_discipline(inside: str, terms: PriorityClass) -> Discipline:
    """The discipline of a class. Raises ValueError for an import path that names no class."""
    match inside:
        case "fifo":
            return Fifo()
        case "edf":
            return Edf(terms.timeouts())
        case "hrrn":
            return Hrrn()
        case "fair":
            return FairShare()
        case "prefix":
            return PrefixShare()
    discipline: Discipline = find_class(inside)()
    return discipline


def make_order(
    ordering: OrderSettings, classes: Mapping[str, PriorityClass], prefixes: PrefixCache | None = None
) -> Order:
    """An empty order of these classes. Raises ValueError for an import path that names no class.

    ``prefixes`` models the engine's prefix cache, for all orders of that engine. A custom order is created with
    ``classes`` and a function that makes the discipline of a class from its terms. After an error of custom code, the
    weighted order with fair disciplines replaces it.
    """
    order = _order_as_named(ordering, classes, _maker(ordering, prefixes))
    if not any(":" in name for name in (ordering.between, ordering.inside)):
        return order
    return SafeOrder(order, classes, lambda: WeightedOrder(classes, partial(make_discipline, "fair")))


def _maker(ordering: OrderSettings, prefixes: PrefixCache | None) -> MakeDiscipline:
    """The maker of each class's discipline; all of them share one model of the prefix cache."""
    if not ordering.by_prefix:
        return partial(make_discipline, ordering.inside)
    cache = PrefixCache() if prefixes is None else prefixes
    return lambda terms: PrefixShare(cache, ordering.prefix_quantum_tokens, ordering.prefix_max_overtakes)


def _order_as_named(
    ordering: OrderSettings, classes: Mapping[str, PriorityClass], discipline_of: MakeDiscipline
) -> Order:
    match ordering.between:
        case "strict":
            return StrictOrder(classes, discipline_of)
        case "ageing":
            return AgeingOrder(classes, discipline_of, ordering.ageing_step_s)
        case "weighted":
            return WeightedOrder(classes, discipline_of)
    order: Order = find_class(ordering.between)(classes, discipline_of)
    return order
