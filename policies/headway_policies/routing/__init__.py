"""Routing: which of several engines a request goes to, once one of them has a seat for it.

There is one queue before all instances. A request is bound to an instance when it leaves that queue, not when it
arrives (late binding), so an instance that is slow, full or gone holds none that another could serve. Where each
instance has a queue of its own, ``ranked`` also puts the full ones in order, and ``ReportedInstances`` knows their load
and health by what they report.
"""

from headway_policies.routing.health import InstanceHealth
from headway_policies.routing.instance import Instance
from headway_policies.routing.instance_seats import InstanceSeats, SeatReading
from headway_policies.routing.least_loaded import LeastLoaded
from headway_policies.routing.ranking import ranked
from headway_policies.routing.reported import Report, ReportedInstance, ReportedInstances
from headway_policies.routing.router import Demand, Router
from headway_policies.routing.sent_prefixes import SentPrefixes

__all__ = [
    "Demand",
    "Instance",
    "InstanceHealth",
    "InstanceSeats",
    "LeastLoaded",
    "Report",
    "ReportedInstance",
    "ReportedInstances",
    "Router",
    "SeatReading",
    "SentPrefixes",
    "ranked",
]
