"""Alerts on a queue that is old, long, or has a class that gets no seat."""

from __future__ import annotations

from functools import reduce

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.alerts.rule import Group, Rule
from headway_dashboard.analysis.catalogue.thresholds import QUEUE_AGE_S, QUEUE_BATCHES, STARVED_MIN
from headway_dashboard.analysis.queries.conditions import Compared, Grown, Joined, Least
from headway_dashboard.analysis.queries.expressions import Expression, Metric, Share, limited

_OLD: list[Expression] = [
    Compared(limited(panels.OLDEST_BY_CLASS, "class", (name,)), ">", age_s) for name, age_s in QUEUE_AGE_S.items()
]
_STARVED_S = 60.0 * STARVED_MIN

GROUP = Group(
    "headway-queue",
    (
        Rule(
            "HeadwayQueueOld",
            reduce(lambda found, metric: Joined(found, "or", metric), _OLD),
            "1m",
            "warning",
            text="a request of class {class} has waited {value}",
            action="Half of the class's queue time-out has gone; soon its requests expire.",
            unit="seconds",
            panel="oldest",
        ),
        Rule(
            "HeadwayQueueLong",
            Compared(Share(Least(panels.QUEUED, 300), panels.LIMIT), ">", QUEUE_BATCHES),
            "0s",
            "warning",
            text=f"the queue has been more than {QUEUE_BATCHES} batches long for 5 minutes",
            action="Load is above capacity. Switch to `throughput`, or add a server.",
            panel="queue",
            fires=f"more than {QUEUE_BATCHES} times the live limit for 5 minutes",
        ),
        Rule(
            "HeadwayClassStarves",
            Joined(
                Compared(Least(panels.QUEUED_BY_CLASS, _STARVED_S), ">", 0),
                "and",
                Compared(Grown(Metric("headway_queue_wait_seconds_count", by=("class",)), _STARVED_S), "==", 0),
            ),
            "0s",
            "warning",
            text=f"no request of class {{class}} got a seat for {STARVED_MIN} minutes",
            action="More urgent classes take every seat. Add seats or a server.",
            panel="queue",
            fires=f"requests wait, and none got a seat for {STARVED_MIN} minutes",
        ),
    ),
)
