"""Alerts on a full KV cache, and on servers of one job with different presets."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue.thresholds import KV_RATIO
from headway_dashboard.export.rule import Alert, Group, number

GROUP = Group(
    "headway-engine",
    (
        Alert(
            "HeadwayKvCacheFull",
            f"headway_engine_kv_cache_usage_ratio > {number(KV_RATIO)}\n"
            "  and on (job, instance) sum by (job, instance) (rate(vllm:num_preemptions_total[5m])) > 0",
            "5m",
            "warning",
            summary="{{ $labels.instance }}: the KV cache is full and requests are preempted",
            action="Fewer seats help: switch to a preset with a lower limit.",
            runbook="runbook-memory",
            panel="kv",
        ),
        Alert(
            "HeadwayPresetsDiffer",
            "count by (job) (count by (job, preset) (headway_preset_info)) > 1",
            "15m",
            "info",
            summary="servers of job {{ $labels.job }} run different presets",
            action="`headway preset use NAME --url URL` for each brings them together.",
            runbook="runbook-presets",
            condition="more than one preset in a job",
        ),
    ),
)
