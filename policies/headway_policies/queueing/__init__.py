"""The waiting queue: its bounds, the order between classes, and the queueing discipline inside each.

An order decides which ticket is dispatched next; ``SafeOrder`` contains the errors of a custom one.
"""

from headway_policies.queueing.adapters import Adapters
from headway_policies.queueing.bounds import QueueSettings
from headway_policies.queueing.class_queues import ClassQueues, MakeDiscipline, fifo
from headway_policies.queueing.controlled_delay import ControlledDelay
from headway_policies.queueing.disciplines import Discipline
from headway_policies.queueing.factory import OrderSettings, make_discipline, make_order
from headway_policies.queueing.order import Order
from headway_policies.queueing.safe_order import SafeOrder
from headway_policies.queueing.strict import StrictOrder
from headway_policies.queueing.wait_queue import Lane, WaitQueue
from headway_policies.queueing.weighted import shares

__all__ = [
    "Adapters",
    "ClassQueues",
    "ControlledDelay",
    "Discipline",
    "Lane",
    "MakeDiscipline",
    "Order",
    "OrderSettings",
    "QueueSettings",
    "SafeOrder",
    "StrictOrder",
    "WaitQueue",
    "fifo",
    "make_discipline",
    "make_order",
    "shares",
]
