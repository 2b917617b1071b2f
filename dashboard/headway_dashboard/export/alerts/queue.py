"""Alerts on a queue that is old, long, or has a class that gets no seat."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue.thresholds import QUEUE_AGE_S, QUEUE_BATCHES, STARVED_MIN
from headway_dashboard.export.rule import Alert, Group, number

_OLD = "\n  or ".join(
    f'headway_queue_oldest_wait_seconds{{class="{name}"}} > {number(age_s)}' for name, age_s in QUEUE_AGE_S.items()
)

GROUP = Group(
    "headway-queue",
    (
        Alert(
            "HeadwayQueueOld",
            _OLD,
            "1m",
            "warning",
            summary="{{ $labels.instance }}: class {{ $labels.class }} has waited {{ $value | humanizeDuration }}",
            action="Half of the class's queue time-out has gone; soon its requests expire.",
            panel="oldest",
        ),
        Alert(
            "HeadwayQueueLong",
            "min_over_time(sum by (job, instance) (headway_queue_depth)[5m:15s])\n"
            f'  > {QUEUE_BATCHES} * sum by (job, instance) (headway_limit{{kind="live"}})',
            "0s",
            "warning",
            summary="{{ $labels.instance }}: the queue has been more than four batches long for five minutes",
            action="Load is above capacity. Switch to `throughput`, or add a server.",
            panel="queue",
            condition=f"more than {QUEUE_BATCHES} times the live limit for 5 minutes",
        ),
        Alert(
            "HeadwayClassStarves",
            f"min_over_time(headway_queue_depth[{STARVED_MIN}m]) > 0\n"
            f"  and on (job, instance, class) increase(headway_queue_wait_seconds_count[{STARVED_MIN}m]) == 0",
            "0s",
            "warning",
            summary=f"{{{{ $labels.instance }}}}: no request of class {{{{ $labels.class }}}} got a seat for "
            f"{STARVED_MIN} minutes",
            action="More urgent classes take every seat. Add seats or a server.",
            panel="queue",
            condition=f"requests wait, and none got a seat for {STARVED_MIN} minutes",
        ),
    ),
)
