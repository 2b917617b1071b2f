"""Alerts on a full KV cache, on grammars, and on servers of one job with different presets."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue.thresholds import COMPILING_S, KV_RATIO
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
            panel="kv",
        ),
        Alert(
            "HeadwayGrammarsCompile",
            "min_over_time(headway_grammars_compiling[1m]) > 0",
            "5m",
            "warning",
            summary="{{ $labels.instance }}: grammars have been compiled for 5 minutes without a pause",
            action="A tenant sends ever new ones that take long: its structured requests wait for one another. Lower "
            "HEADWAY_MAX_GRAMMAR_SECONDS, or bound the tenant's requests.",
            condition="grammars compile without a pause",
        ),
        Alert(
            "HeadwayGrammarsUnchecked",
            'sum by (job, instance) (increase(headway_grammar_checks_total{result="unchecked"}[5m])) > 0',
            "0s",
            "warning",
            summary="{{ $labels.instance }}: {{ $value | humanize }} grammars reached the engine unchecked",
            action="The process that compiles them first does not start; the log says why. Until then one grammar can "
            "stop the structured output of all.",
            condition="grammars that are not checked",
        ),
        Alert(
            "HeadwayGrammarStuck",
            f"headway_engine_compiling_seconds > {number(COMPILING_S)}",
            "0s",
            "warning",
            summary="{{ $labels.instance }}: a grammar has been compiling in the engine for "
            "{{ $value | humanizeDuration }}",
            action="Other structured outputs wait for it, and vLLM cancels none: `headway recycle` starts a new "
            "engine. It happens by itself after `recovery.slow_step_after_s` where others wait.",
            condition="a grammar that the engine compiles for long",
        ),
        Alert(
            "HeadwayPresetsDiffer",
            "count by (job) (count by (job, preset) (headway_preset_info)) > 1",
            "15m",
            "info",
            summary="servers of job {{ $labels.job }} run different presets",
            action="`headway preset use NAME --url URL` for each brings them together.",
            condition="more than one preset in a job",
        ),
    ),
)
