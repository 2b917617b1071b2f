"""Alerts on servers that do not answer, are not ready, or lost their engine."""

from __future__ import annotations

from headway_dashboard.export.rule import Alert, Group

GROUP = Group(
    "headway-availability",
    (
        Alert(
            "HeadwayDown",
            'up{job="headway"} == 0',
            "1m",
            "critical",
            summary="{{ $labels.instance }} does not answer",
            action="Look at the server's log; its unit or container should have restarted it.",
            condition="no answer to a scrape",
        ),
        Alert(
            "HeadwayNoTelemetry",
            'absent(up{job="headway"})',
            "2m",
            "critical",
            summary="Prometheus scrapes no server of job {{ $labels.job }}",
            action="Is any server listed in targets.yml, and does the job have this name?",
            condition="no server is scraped",
        ),
        Alert(
            "HeadwayNotInServer",
            'up{job="headway"} == 1 unless on (job, instance) headway_build_info',
            "2m",
            "critical",
            summary="{{ $labels.instance }} serves metrics without Headway's",
            action="Is `headway` named in VLLM_PLUGINS? `headway serve` does it by itself.",
            condition="metrics without Headway's",
        ),
        Alert(
            "HeadwayNotReady",
            "headway_ready == 0",
            "5m",
            "critical",
            summary="{{ $labels.instance }} is up but not ready",
            action="GET /headway/readyz gives the reasons.",
            condition="up, but not ready",
        ),
        Alert(
            "HeadwayEngineLost",
            'sum by (job, instance) (increase(headway_outcomes_total{outcome="engine_lost"}[5m])) > 0',
            "0s",
            "critical",
            summary="{{ $labels.instance }} lost its engine and with it {{ $value | humanize }} requests",
            action="The log names the cause; out of memory is the usual one: fewer seats, or a smaller "
            "--max-model-len.",
            panel="errors",
            condition="any in 5 minutes",
        ),
        Alert(
            "HeadwayEngineReplaced",
            'sum by (job, instance, cause) (increase(headway_engine_deaths_total{cause!="recycle"}[15m])) > 0',
            "0s",
            "warning",
            summary="{{ $labels.instance }} had to replace its engine ({{ $labels.cause }})",
            action="The server keeps running. The log has the engine's last error; after out_of_memory fewer seats "
            "are open.",
            panel="deaths",
            condition="any but a recycle in 15 minutes",
        ),
        Alert(
            "HeadwayEngineOutOfMemoryAgain",
            'sum by (job, instance) (increase(headway_engine_deaths_total{cause="out_of_memory"}[15m])) > 1',
            "0s",
            "critical",
            summary="{{ $labels.instance }} ran out of memory again and refused all requests until another engine "
            "had answered",
            action="Fewer seats, a smaller --max-model-len, or less --gpu-memory-utilization.",
            panel="deaths",
            condition="more than one out of memory in 15 minutes",
        ),
        Alert(
            "HeadwayEngineSilent",
            'headway_engine_state{state="silent"} == 1',
            "1m",
            "critical",
            summary="The engine of {{ $labels.instance }} is unresponsive",
            action="No request is sent to it. Set recovery.restart_hung, or end EngineCore: headway serve starts "
            "another one.",
            panel="engine-state",
            condition="unresponsive",
        ),
    ),
)
