"""``headway simulate``: runs presets on a model of the engine, with the same requests for each."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from headway_policies import Preset
from headway_policies.preset import LACKS, Place, no_effect
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.report.class_slo import shortest
from headway_simulator.studies.comparison import compare
from headway_simulator.studies.strategies import Arm, strategy_arms
from headway_simulator.studies.tuning import sweep
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.trace import TraceError, read_trace
from headway_simulator.traffic.traffic import Traffic, of_trace, of_workload
from headway_simulator.traffic.workload import WORKLOADS, Workload
from headway_tools.cli.measuring.objectives import USUAL_WORDS, add_objectives, given_objectives
from headway_tools.cli.measuring.simulate_variation import add_variation, check_variation, variation_of
from headway_tools.cli.output.simulated import need_plotly, show, show_sweep, show_timeline
from headway_tools.console import (
    Bar,
    FailedError,
    UsageError,
    add_json,
    connect,
    find_preset,
    open_catalogue,
    positive,
    preset_dir,
    seconds,
    warn,
    whole,
)
from headway_tools.load.fitted import fitted_model

NAME = "simulate"
SUMMARY = "Compare presets on a model of the engine: the same requests for each, without a server, in seconds."
EPILOG = """\
examples:
  headway simulate --preset latency --preset throughput              chat at 1.5 times the ceiling
  headway simulate --preset balanced --preset ./mine.toml --workload W3 --load 2.5 --html compare.html
  headway simulate --preset balanced --trace day.csv --scale-lengths 0.0625 --load 1.2
  headway simulate --strategies 32 --workload W4                     serial, static, dynamic, continuous
  headway simulate --like http://127.0.0.1:8000 --load 1.2           the engine of a running server
  headway simulate --sweep                                           1 to 128 seats: throughput, latency, the knee
  headway simulate --slow 6x:60s-90s --jitter 0.2 --pause 10s@120s   an engine that varies, as real ones do
  headway simulate --timeline                                        seven sequences on four seats

workloads:
{workloads}

Disturbances change the time of the steps that begin while they last; factors at the same time are multiplied. Every
preset meets the same disturbances. The ceiling, and the loads, are of the undisturbed engine.

A load of 1.0 is the fluid ceiling: the most requests a second that any policy could complete within the objectives.
Goodput and ceiling use the same objectives for all presets: the objectives of the first preset on this engine
(ttft_slo_s, inter_token_slo_ms; the ceiling keeps the shortest time between tokens), or --slo-ttft-ms and
--slo-inter-token-ms ({usual} are usual). Further rows judge each further preset by its own objectives.
Traces have the columns TIMESTAMP, ContextTokens, GeneratedTokens. --like takes the constants of the engine from the
status of a running server, `headway serve` or `headway route`, which fits them from its own steps; it needs the admin
token (HEADWAY_ADMIN_TOKEN), and given constants win. The default constants fit a 135 M model on two CPU cores. The same
seed gives the same run.
A failing custom policy is named above the table, in the CSV file and in the JSON; the exit code stays 0.
exit codes: 0 done   1 the server of --like has fitted nothing yet   2 wrong usage, a bad preset or trace, or plotly
            missing for --html   3 the server is not reachable   4 token missing or wrong
"""
DEFAULT_PRESET = "balanced"
_DURATION_S = 300.0
_POOR_FIT_RATIO = 0.15  # 1 to 6 % were seen on an engine that nothing else used
_factor = partial(positive, what="a number above 0 and below 1e9", most=1e9)
_cost = partial(positive, what="a number from 0 to below 1e9", most=1e9, zero=True)


def configure(parser: argparse.ArgumentParser) -> None:
    listed = "\n".join(f"  {workload.name:<15} {workload.summary}" for workload in WORKLOADS.values())
    parser.epilog = EPILOG.replace("{workloads}", listed).replace("{usual}", USUAL_WORDS)
    _add_what(parser.add_argument_group("presets and policies"))
    _add_traffic(parser.add_argument_group("traffic"))
    _add_engine(parser.add_argument_group("objectives and engine"))
    add_variation(parser.add_argument_group("disturbances of the engine (default: none)"))
    output = parser.add_argument_group("output")
    output.add_argument("--csv", metavar="FILE", help="write one row for each preset and class")
    output.add_argument("--html", metavar="FILE", help="write a page with charts that needs no network (needs plotly)")
    add_json(parser)
    parser.set_defaults(run=run)


def _add_what(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--preset",
        action="append",
        metavar="NAME",
        help=f"a preset or a file; again for each (default: {DEFAULT_PRESET})",
    )
    group.add_argument("--preset-dir", metavar="DIR", help="a folder with your own presets")
    group.add_argument("--engine-alone", action="store_true", help="also the engine without Headway")
    group.add_argument("--strategies", type=whole, metavar="SEATS", help="instead: each batching strategy by itself")
    group.add_argument("--sweep", action="store_true", help="instead: throughput and latency against seats")
    group.add_argument("--timeline", action="store_true", help="instead: a timeline of each strategy")


def _add_traffic(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--workload", choices=list(WORKLOADS), metavar="W", help="see below (default: W1)")
    group.add_argument("--trace", metavar="FILE", help="replay this file instead")
    group.add_argument("--scale-lengths", type=_factor, default=1.0, metavar="X", help="multiply the trace's lengths")
    group.add_argument("--scale-time", type=_factor, metavar="X", help="multiply the trace's times; or give --load")
    group.add_argument(
        "--load", type=_factor, metavar="X", help="multiple of the ceiling (default: the workload's own)"
    )
    group.add_argument("--duration", type=seconds, metavar="S", help=f"seconds to simulate (default: {_DURATION_S:g})")
    group.add_argument("--patience", type=seconds, metavar="S", help="clients disconnect without a first token after S")
    group.add_argument("--seed", type=int, default=1, metavar="N", help="(default: 1)")


def _add_engine(group: argparse._ArgumentGroup) -> None:
    model = EngineModel()
    add_objectives(group, _factor)
    group.add_argument("--like", metavar="URL", help="the engine of this server, as the server has fitted it")
    for flag, kind, value, words in (
        ("--step-ms", _factor, model.base_s * 1000, "a step of the engine"),
        ("--seat-ms", _cost, model.seat_s * 1000, "more for each sequence in it"),
        ("--prefill-ms", _cost, model.prefill_s * 1000, "more for each prompt token in it"),
        ("--context-ms", _cost, model.context_s * 1000, "more while the KV cache is full, in proportion to its use"),
    ):
        group.add_argument(flag, type=kind, metavar="MS", help=f"{words} (default: {value:g})")
    group.add_argument("--kv-tokens", type=whole, metavar="N", help=f"KV space (default: {model.kv_tokens})")
    group.add_argument("--max-num-seqs", type=whole, metavar="N", help=f"(default: {model.max_num_seqs})")


def run(chosen: argparse.Namespace) -> int:
    _check_output(chosen)
    if chosen.timeline:
        return show_timeline(chosen)
    workload = WORKLOADS[chosen.workload or "W1"]
    model, given = _engine(chosen, workload), given_objectives(chosen)
    if chosen.sweep:
        slo = given or Slo()
        return show_sweep(chosen, sweep(workload, model, slo, chosen.seed), slo)
    arms = _arms(chosen, model)
    judge = None if given is not None else _judge(chosen, arms)
    slo = given or shortest(judge, model)
    traffic = _traffic(chosen, workload, model, slo)
    if not traffic.requests:
        raise UsageError("no request arrives in that time; give a longer --duration or a larger --load")
    with Bar(sys.stderr) as bar:
        comparison = compare(
            arms,
            traffic,
            slo,
            seed=chosen.seed,
            clients=Clients(patience_s=chosen.patience),
            progress=bar.show,
            judge=judge,
        )
    code = show(chosen, comparison)
    _say_what_has_no_effect(arms)
    return code


def _say_what_has_no_effect(arms: Sequence[Arm]) -> None:
    """Name the parts of the presets that the model leaves out, on standard error: programs read standard output."""
    for arm in arms:
        lines = {} if arm.preset is None else no_effect(arm.preset, LACKS[Place.SIMULATE], stated_only=True)
        for line in lines.values():
            print(f"headway: {arm.name}: {line}", file=sys.stderr)


def _check_output(chosen: argparse.Namespace) -> None:
    """Refuse combinations of options that would be ignored. Raises UsageError."""
    check_variation(chosen)
    if chosen.sweep and chosen.timeline:
        raise UsageError("give either --sweep or --timeline")
    of_load = (chosen.trace, chosen.csv, chosen.preset, chosen.strategies, chosen.preset_dir, chosen.engine_alone,
               chosen.load, chosen.duration, chosen.patience, chosen.scale_time, chosen.scale_lengths != 1)  # fmt: skip
    of_engine = (chosen.like, chosen.step_ms, chosen.seat_ms, chosen.prefill_ms, chosen.context_ms, chosen.kv_tokens,
                 chosen.max_num_seqs, given_objectives(chosen))  # fmt: skip
    if chosen.sweep and (any(of_load) or chosen.html):
        raise UsageError("--sweep goes with --workload, objectives, the engine's constants and --json only")
    if chosen.timeline and (any(of_load) or chosen.workload or any(constant is not None for constant in of_engine)):
        raise UsageError("--timeline goes with --html and --json only")
    if chosen.strategies and chosen.engine_alone:
        raise UsageError("give either --strategies or --engine-alone")
    if chosen.csv and chosen.csv == chosen.html:
        raise UsageError("--csv and --html name the same file")
    if chosen.html:
        need_plotly()


def _engine(chosen: argparse.Namespace, workload: Workload) -> EngineModel:
    model = EngineModel() if chosen.like is None else _like(chosen.like)
    costs_ms = {
        "base_s": chosen.step_ms,
        "seat_s": chosen.seat_ms,
        "prefill_s": chosen.prefill_ms,
        "context_s": chosen.context_ms,
    }
    kv_tokens = chosen.kv_tokens or (None if chosen.trace else workload.kv_tokens) or model.kv_tokens
    return replace(
        model,
        **{name: cost_ms / 1000 for name, cost_ms in costs_ms.items() if cost_ms is not None},
        max_num_seqs=chosen.max_num_seqs or model.max_num_seqs,
        kv_tokens=max(kv_tokens, model.block_tokens),
        prefix_cache=bool(workload.prefixes and not chosen.trace),
        most_adapters=None if chosen.trace else workload.most_adapters,
        variation=variation_of(chosen),
    )


def _like(url: str) -> EngineModel:
    """The engine of a running server. Raises FailedError where the server has no fit yet."""
    with connect(url, os.environ) as client:
        status = client.status()
    model, costs = fitted_model(status), status.engine.step_time
    if model is None or costs is None:
        raise FailedError(f"{url} has no fit of its step time yet: too few requests have run")
    if costs.error_ratio > _POOR_FIT_RATIO:
        warn(
            f"poor fit: the step time of {url} is off by {costs.error_ratio:.0%} on the mean, more than "
            f"{_POOR_FIT_RATIO:.0%}; likely other work on its machine: rely on no simulation until then"
        )
    return model


def _judge(chosen: argparse.Namespace, arms: Sequence[Arm]) -> Preset | None:
    """The preset whose objectives judge every arm: the first one, or the default one for the engine alone."""
    if chosen.strategies:
        return None
    return arms[0].preset or open_catalogue(None).get(DEFAULT_PRESET)


def _arms(chosen: argparse.Namespace, model: EngineModel) -> list[Arm]:
    if chosen.strategies:
        if chosen.preset:
            raise UsageError("give either --strategies or --preset")
        return strategy_arms(chosen.strategies, model)
    catalogue = open_catalogue(preset_dir(chosen.preset_dir, os.environ))
    wanted = chosen.preset or ([] if chosen.engine_alone else [DEFAULT_PRESET])
    presets: dict[str, Preset] = {}
    for preset in (find_preset(name, catalogue).preset for name in wanted):
        if presets.setdefault(preset.name, preset) != preset:
            raise UsageError(f"two presets are named {preset.name!r}: give one of the files another name")
    arms = [Arm(name, preset, model) for name, preset in presets.items()]
    return [*arms, Arm("engine alone", None, model)] if chosen.engine_alone else arms


def _traffic(chosen: argparse.Namespace, workload: Workload, model: EngineModel, slo: Slo) -> Traffic:
    seed = chosen.seed
    if chosen.trace is None:
        if chosen.scale_time is not None or chosen.scale_lengths != 1:
            raise UsageError("--scale-time and --scale-lengths belong to --trace")
        return of_workload(workload, chosen.duration or _DURATION_S, seed, model=model, slo=slo, load=chosen.load)
    if chosen.workload is not None:
        raise UsageError("give either --workload or --trace")
    if chosen.load is not None and chosen.scale_time is not None:
        raise UsageError("give either --load, which scales the time to fit, or --scale-time")
    try:
        trace = read_trace(chosen.trace)
    except TraceError as error:
        raise UsageError(str(error)) from None
    trace = trace.scaled(chosen.scale_lengths, chosen.scale_time or 1.0)
    return of_trace(trace, seed, model=model, slo=slo, duration_s=chosen.duration, load=chosen.load)
