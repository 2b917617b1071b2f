"""Alerts on a full KV cache, on grammars, and on servers of one job with different presets."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import memory_panels, panels
from headway_dashboard.analysis.catalogue.alerts.rule import Group, Rule
from headway_dashboard.analysis.catalogue.thresholds import COMPILING_S, KV_RATIO
from headway_dashboard.analysis.queries.conditions import Compared, Grown, Joined, Kinds, Least
from headway_dashboard.analysis.queries.expressions import Gauge, Metric

GROUP = Group(
    "headway-engine",
    (
        Rule(
            "HeadwayKvCacheFull",
            Joined(
                Compared(panels.KV_USE, ">", KV_RATIO),
                "and",
                Compared(Grown(memory_panels.PREEMPTIONS.of, 300), ">", 0),
            ),
            "5m",
            "warning",
            text="the KV cache is full, and requests are preempted",
            action="Fewer seats help: switch to a preset with a lower limit.",
            unit="ratio",
            panel="kv",
        ),
        Rule(
            "HeadwayGrammarsCompile",
            Compared(Least(Gauge(Metric("headway_grammars_compiling")), 300), ">", 0),
            "0s",
            "warning",
            text="grammars have been compiled for 5 minutes without a pause",
            action="A tenant keeps sending new grammars that compile slowly: its structured requests wait for each "
            "other. Lower HEADWAY_MAX_GRAMMAR_SECONDS, or bound the tenant's requests.",
            fires="grammars compile for 5 minutes without a pause",
        ),
        Rule(
            "HeadwayGrammarsUnchecked",
            Compared(Grown(Metric("headway_grammar_checks_total", (("result", ("unchecked",)),)), 300), ">", 0),
            "0s",
            "warning",
            text="grammars that reached the engine unchecked: {value}",
            action="The process that test-compiles grammars does not start; the log says why. Until it does, one "
            "grammar can stop the structured output of all.",
            fires="grammars that are not checked",
        ),
        Rule(
            "HeadwayGrammarStuck",
            Compared(Gauge(Metric("headway_engine_compiling_seconds"), largest=True), ">", COMPILING_S),
            "0s",
            "warning",
            text="the engine has been compiling a grammar for {value}: structured outputs wait",
            action="Other structured outputs wait for this grammar, and vLLM cannot cancel it. `headway recycle` "
            "starts a new engine; the server does so itself after `recovery.slow_step_after_s` if requests wait.",
            unit="seconds",
            fires="a grammar that the engine compiles for long",
        ),
        Rule(
            "HeadwayPresetsDiffer",
            Compared(Kinds(Metric("headway_preset_info"), "preset"), ">", 1),
            "15m",
            "info",
            text="the servers run {value} different presets",
            action="`headway preset use NAME --url URL` for each brings them together.",
            fires="more than one preset in a job",
            of_several=True,
        ),
    ),
)
