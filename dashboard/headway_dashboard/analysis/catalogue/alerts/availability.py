"""Alerts on servers that do not answer, are not ready, or lost their engine."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.alerts.rule import Group, Rule
from headway_dashboard.analysis.queries.conditions import Absent, Compared, Grown, Joined, Most
from headway_dashboard.analysis.queries.expressions import Gauge, Metric

#: The job of the shipped configuration.
_UP = Metric("up", (("job", ("headway",)),))
_DEATHS = Metric("headway_engine_deaths_total", by=("cause",))

_DAY_S = 86_400.0
#: A server that loads its model and warms up does not answer yet, which may take half an hour.
DOWN = Rule(
    "HeadwayDown",
    Joined(Compared(Gauge(_UP), "==", 0), "and", Compared(Most(_UP, _DAY_S), "==", 1)),
    "1m",
    "critical",
    text="the server does not answer",
    action="Look at the server's log; its unit or container should have restarted it.",
    fires="no answer to a scrape, after one within the last day",
)

GROUP = Group(
    "headway-availability",
    (
        DOWN,
        Rule(
            "HeadwayNotUp",
            Compared(Gauge(_UP), "==", 0),
            "45m",
            "critical",
            text="the server has not answered for 45 minutes",
            action="A start takes half an hour at most: look at the server's log, and at the address in targets.yml.",
            fires="no answer to a scrape, also of a server that starts",
        ),
        Rule(
            "HeadwayNoTelemetry",
            Absent(_UP),
            "2m",
            "critical",
            text="Prometheus scrapes no server of this job",
            action="Is any server listed in targets.yml, and does the job have this name?",
            fires="no server is scraped",
        ),
        Rule(
            "HeadwayNotInServer",
            Joined(Compared(Gauge(_UP), "==", 1), "unless", Gauge(Metric("headway_build_info"))),
            "2m",
            "critical",
            text="the server has metrics without Headway's",
            action="Is `headway` named in VLLM_PLUGINS? `headway serve` does it by itself.",
            fires="metrics without Headway's",
        ),
        Rule(
            "HeadwayNotReady",
            Compared(panels.READY, "==", 0),
            "5m",
            "critical",
            text="the server is up but not ready",
            action="GET /headway/readyz gives the reasons.",
            fires="up, but not ready",
        ),
        Rule(
            "HeadwayEngineLost",
            Compared(Grown(Metric("headway_outcomes_total", (("outcome", ("engine_lost",)),)), 300), ">", 0),
            "0s",
            "critical",
            text="the engine was lost, and {value} of its requests with it",
            action="The log names the cause; out of memory is the usual one: fewer seats, or a smaller "
            "--max-model-len.",
            panel="errors",
            fires="any in 5 minutes",
        ),
        Rule(
            "HeadwayEngineReplaced",
            Compared(Grown(_DEATHS.but("cause", ("recycle",)), 900), ">", 0),
            "0s",
            "warning",
            text="the engine died and was replaced ({cause})",
            action="The server keeps running. The log has the engine's last error; after out_of_memory fewer seats "
            "are open.",
            panel="deaths",
            fires="any but a recycle in 15 minutes",
        ),
        Rule(
            "HeadwayEngineOutOfMemoryAgain",
            Compared(Grown(Metric(_DEATHS.name, (("cause", ("out_of_memory",)),)), 900), ">", 1),
            "0s",
            "critical",
            text="the engine ran out of memory again, and all requests were refused until another one had answered",
            action="Fewer seats, a smaller --max-model-len, or less --gpu-memory-utilization.",
            panel="deaths",
            fires="more than one out of memory in 15 minutes",
        ),
        Rule(
            "HeadwayEngineSilent",
            Compared(Gauge(Metric("headway_engine_state", (("state", ("silent",)),)), largest=True), "==", 1),
            "1m",
            "critical",
            text="the engine is unresponsive",
            action="No request is sent to it. Set recovery.restart_hung, or end EngineCore: headway serve starts "
            "another one.",
            panel="engine-state",
            fires="unresponsive",
        ),
        Rule(
            "HeadwayEngineStuck",
            Compared(Gauge(Metric("headway_engine_stuck_seconds", by=("cause",)), largest=True), ">", 0),
            "0s",
            "critical",
            text="the engine has stepped without any token for {value} ({cause})",
            action="`headway status` names the remedy for this cause. The time-outs of its requests empty the engine; "
            "if the engine stays stuck, end EngineCore: headway serve starts another engine.",
            unit="seconds",
            panel="engine-state",
            fires="an engine that steps without any token",
        ),
    ),
)
