"""Conformance suites for custom policies, one function for each kind, and the protocols that they check.

    from headway_policies.conformance import check_discipline

    def test_my_discipline() -> None:
        check_discipline(MyDiscipline)

    kind                   protocol         suite               created as
    order between classes  Order            check_order         Class(classes, make_discipline)
    discipline inside one  Discipline       check_discipline    Class()
    limit policy           LimitPolicy      check_limit_policy  Class(settings, fixed)
    batching window        Window           check_window        Class(longest_s)

``check_limit`` is for a whole limit, which no preset names; ``failures`` runs the suites of all policies that a preset
names. Each suite runs seeded, repeatable histories against an independent reference and raises AssertionError with one
sentence that names the seed and the step. Cost is not checked: time is not suited to an assertion. ``ClassQueues`` and
``Fifo`` are bases to derive from.
"""

from headway_policies.batching import Gathered, Window
from headway_policies.conformance.limits import RULES, Rule, Violation, check_limit, check_limit_policy, violations
from headway_policies.conformance.orders import check_discipline, check_order
from headway_policies.conformance.presets import ACCEPTABLE, failures
from headway_policies.conformance.windows import check_window
from headway_policies.limits import Interval, Learns, LimitPolicy, LimitSettings
from headway_policies.queueing import Discipline, MakeDiscipline, Order
from headway_policies.queueing.class_queues import ClassQueues
from headway_policies.queueing.disciplines import Fifo
from headway_policies.request import PriorityClass, Ticket

__all__ = [
    "ACCEPTABLE",
    "RULES",
    "ClassQueues",
    "Discipline",
    "Fifo",
    "Gathered",
    "Interval",
    "Learns",
    "LimitPolicy",
    "LimitSettings",
    "MakeDiscipline",
    "Order",
    "PriorityClass",
    "Rule",
    "Ticket",
    "Violation",
    "Window",
    "check_discipline",
    "check_limit",
    "check_limit_policy",
    "check_order",
    "check_window",
    "failures",
    "violations",
]
