"""The settings of the queue's order, and the order and disciplines they name.

``StrictOrder``: the most urgent class first. Known weak spot: a constant stream of urgent requests starves the classes
below for as long as it lasts; only their queue time-out ends the wait. ``AgeingOrder`` and ``WeightedOrder`` bound that
wait; each states its bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pydantic import BaseModel, ConfigDict, Field

from headway_policies.import_path import find_class
from headway_policies.queueing.ageing import AgeingOrder
from headway_policies.queueing.disciplines import Discipline, Edf, Fifo, Hrrn
from headway_policies.queueing.fair_share import FairShare
from headway_policies.queueing.order import Order
from headway_policies.queueing.safe_order import SafeOrder
from headway_policies.queueing.strict import StrictOrder
from headway_policies.queueing.weighted import WeightedOrder
from headway_policies.request import PriorityClass


class OrderSettings(BaseModel):
    """``[ordering]`` of a preset: which ticket is dispatched next, between the classes and inside one.

    ``between``: ``strict``, ``ageing`` or ``weighted``; ``inside``: ``fifo``, ``edf``, ``hrrn`` or ``fair``. Either may
    be the import path ``package.module:Class`` of a custom policy. ``ageing_step_s`` is the wait after which a class is
    as urgent as the next class above it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    between: str = Field(default="weighted", pattern=r"^(strict|ageing|weighted|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")
    inside: str = Field(default="fair", pattern=r"^(fifo|edf|hrrn|fair|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")
    ageing_step_s: float = Field(default=10.0, gt=0, le=86_400)


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
    discipline: Discipline = find_class(inside)()
    return discipline


def make_order(ordering: OrderSettings, classes: Mapping[str, PriorityClass]) -> Order:
    """An empty order of these classes. Raises ValueError for an import path that names no class.

    A custom order is created with ``classes`` and a function that makes the discipline of a class from its terms. After
    an error of custom code, the weighted order with fair disciplines replaces it.
    """
    order = _order_as_named(ordering, classes)
    if not any(":" in name for name in (ordering.between, ordering.inside)):
        return order
    return SafeOrder(order, classes, lambda: WeightedOrder(classes, partial(make_discipline, "fair")))


def _order_as_named(ordering: OrderSettings, classes: Mapping[str, PriorityClass]) -> Order:
    discipline_of = partial(make_discipline, ordering.inside)
    match ordering.between:
        case "strict":
            return StrictOrder(classes, discipline_of)
        case "ageing":
            return AgeingOrder(classes, discipline_of, ordering.ageing_step_s)
        case "weighted":
            return WeightedOrder(classes, discipline_of)
    order: Order = find_class(ordering.between)(classes, discipline_of)
    return order
