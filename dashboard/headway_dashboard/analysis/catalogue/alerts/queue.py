"""Alerts on a queue that is old, long, or has a class that gets no seat."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.alerts.rule import Group, Rule
from headway_dashboard.analysis.catalogue.thresholds import QUEUE_AGE_RATIO, QUEUE_BATCHES, STARVED_MIN
from headway_dashboard.analysis.queries.conditions import Compared, Grown, Joined, Least
from headway_dashboard.analysis.queries.expressions import Metric, Share

_STARVED_S = 60.0 * STARVED_MIN

GROUP = Group(
    "headway-queue",
    (
        Rule(
            "HeadwayQueueOld",
            Compared(panels.QUEUE_AGE_BY_CLASS, ">", QUEUE_AGE_RATIO),
            "1m",
            "warning",
            text="a request of class {class} has waited {value} of its longest time in the queue",
            action="At 100 % requests of the class expire. Switch to `throughput`, or add a server.",
            unit="ratio",
            panel="queue-age",
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
