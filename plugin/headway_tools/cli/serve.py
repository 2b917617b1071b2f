"""``headway serve``: a vLLM server with the plugin: checks, then the environment, then vLLM."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.operator import Listed
from headway.release import version
from headway.settings import SERVE_USAGE, Environment
from headway_tools.cli.serving.compilation import COMPILED, QUICK_PRICE, Uncompiled, quick_start
from headway_tools.cli.serving.cpu_start import NOTHING, CpuStart, choose
from headway_tools.cli.serving.environment import (
    api_servers,
    behind_queue,
    config_text,
    engine_defaults,
    plugin_environment,
)
from headway_tools.cli.serving.seats import seats_line, seats_warning
from headway_tools.console import (
    DEFAULT_PRESET,
    Parser,
    ServeWords,
    cpu_backend,
    find_preset,
    formatter,
    has,
    model_of,
    open_catalogue,
    preflight,
    preset_dir,
    read_machine,
    split,
    value_of,
    warn,
    with_defaults,
)

NAME = "serve"
SUMMARY = "Serve a model with vLLM and Headway in one process."
EPILOG = """\
All other flags are passed to vLLM unchanged and in sequence, also --flag=value; all words after `--` are vLLM's. List:
  headway serve --help=all          (the same as: vllm serve --help=all)

Added for vLLM, unless you give them or your --config FILE sets them:
  --scheduling-policy priority      a shortage of KV space affects the least urgent class
  --dtype float32                   on a CPU without AVX-512, where 16-bit floats are several times slower, and with
                                    --quick-start on a CPU without AVX512_BF16
  --enforce-eager                   on a CPU without a C++ compiler, and with --quick-start

vLLM chooses the number of sequences that the engine can run (--max-num-seqs) for its hardware; no preset exceeds it.

Set for vLLM's CPU backend, unless your environment or flags do, and shown in one line at the start:
  VLLM_CPU_KVCACHE_SPACE            half of the free memory beside weights and processes, in GiB, where vLLM's own
                                    choice (92 % of all memory) is not free, and with --quick-start
  VLLM_CPU_OMP_THREADS_BIND         for several workers on one memory node, and under a quota of processor time
  TORCHDYNAMO_DISABLE               without a C++ compiler, and with --quick-start

examples:
  headway serve ./my-model --preset balanced
  headway serve Qwen/Qwen3-8B --preset throughput --host 127.0.0.1 --port 9000 --tensor-parallel-size 2
  headway serve ./my-model --preset ./night.toml --preset-dir ./presets
  headway serve ./my-model --quick-start          for a first look: ready sooner, slower tokens
  headway serve ./my-model --api-server-count 4   four API servers of one engine behind one queue, if one API server
                                                  is the bottleneck; also: VLLM_USE_RUST_FRONTEND=1 headway serve ...

The admin API (status, preset switch, dashboard control) is on if HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE is
set to a secret of at least 32 characters. HEADWAY_VIEWER_TOKEN(_FILE) adds a read-only token.

Bounds of requests, all of them environment variables: HEADWAY_MAX_HEADER_BYTES, HEADWAY_MAX_BODY_BYTES,
HEADWAY_MAX_BODIES_BYTES (all bodies in transit), HEADWAY_BODY_TIMEOUT_S, HEADWAY_MIN_BODY_BYTES_PER_S.
exit codes: 0 stopped   1 the engine failed   2 wrong usage, bad preset, missing model, port in use
"""
_HELP_ALL = "--help="
_COMPILED = "a flag, the --config file or TORCHDYNAMO_DISABLE=0 asks for compilation"


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a start: the server, its arguments and its environment."""

    chosen: Listed
    engine: tuple[str, ...]
    environment: Mapping[str, str]
    admin_on: bool
    warnings: tuple[str, ...]
    cpu: str = ""  # what was chosen for the CPU backend
    proposal: str | None = None  # for it, of a choice that has a price
    quick: str | None = None  # what a quick start has set; None: it is none


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe our options; ``run`` reads the words itself, see ``split``."""
    parser.usage = SERVE_USAGE
    parser.add_argument("model", metavar="MODEL", help="a model as vLLM takes it (--model MODEL works, too)")
    parser.add_argument(
        "--preset",
        metavar="NAME|FILE",
        help=f"the preset to start with (default: $HEADWAY_PRESET, else {DEFAULT_PRESET})",
    )
    parser.add_argument("--preset-dir", metavar="DIR", help="a folder with your own preset files")
    parser.add_argument("--no-warmup", action="store_true", help="listen at once, without warm-up requests")
    parser.add_argument("--quick-start", action="store_true", help=f"do not compile the model: {QUICK_PRICE}")


def run(words: Sequence[str]) -> int:
    """Serve until stopped; returns the exit code. Raises CliError before anything is started."""
    ours = split(words)
    if ours.show_help:
        _print_help()
        return 0
    if any(word.startswith(_HELP_ALL) for word in ours.engine):
        preflight.check_vllm()
        return _serve(ours.engine, own_launcher=False)
    plan = make_plan(ours, os.environ)
    os.environ.update(plan.environment)
    print(banner(plan), file=sys.stderr)
    for warning in plan.warnings:
        warn(warning)
    return _serve(plan.engine, own_launcher=behind_queue(plan.engine, config_text(plan.engine), os.environ))


def make_plan(ours: ServeWords, environ: Mapping[str, str]) -> Plan:
    """Check everything that can be checked before vLLM is imported. Raises UsageError."""
    folder = preset_dir(ours.preset_dir, environ)
    catalogue = open_catalogue(folder)
    wanted = ours.preset or Environment(environ).preset
    chosen = find_preset(wanted, catalogue)
    preflight.check_model(ours.engine, environ)
    preflight.check_address(ours.engine)
    preflight.check_variables(environ)
    preflight.check_vllm()
    quick = _quick_start(ours, environ)
    engine = with_defaults(ours.engine, quick.flags)
    cpu = _cpu_start(engine, {**environ, **quick.environment}, quick=quick.asked)
    warnings = (
        f"--quick-start has no effect: {_COMPILED}" if ours.quick_start and not quick.asked else None,
        cpu.warning,
        seats_warning(engine, chosen, catalogue),
    )
    variables = plugin_environment(wanted, folder, environ, warmup=ours.warmup)
    return Plan(
        chosen=chosen,
        engine=with_defaults(engine, [*engine_defaults(engine), *cpu.flags]),
        environment={**variables, **quick.environment, **cpu.environment},
        admin_on=Environment(environ).admin_token is not None,
        warnings=tuple(text for text in warnings if text),
        cpu=cpu.line(),
        proposal=cpu.proposal,
        quick=quick.words() if quick.asked else None,
    )


def _quick_start(ours: ServeWords, environ: Mapping[str, str]) -> Uncompiled:
    """The settings of ``--quick-start``; nothing without it."""
    if not ours.quick_start:
        return COMPILED
    return quick_start(ours.engine, config_text(ours.engine), environ, cpu=cpu_backend())


def _cpu_start(engine: Sequence[str], environ: Mapping[str, str], *, quick: bool) -> CpuStart:
    """The settings for the CPU backend; nothing for any other."""
    if not cpu_backend():
        return NOTHING
    return choose(read_machine(environ), engine, config_text(engine), environ, quick=quick)


def banner(plan: Plan) -> str:
    """A few lines about what is about to run."""
    preset, servers = plan.chosen.preset, api_servers(plan.engine, config_text(plan.engine))
    admin = "on" if plan.admin_on else "off; set HEADWAY_ADMIN_TOKEN (32 characters or more) to turn it on"
    return "\n".join(
        [
            f"headway {version()} serves {model_of(plan.engine) or 'the model of --config'} at {_url(plan.engine)}",
            f"  preset     {preset.name} ({plan.chosen.source})",
            f"  seats      {seats_line(plan.engine, preset)}",
            f"  classes    {' > '.join(preset.by_urgency())}; without one: {preset.default_class}",
            f"  admin API  {admin}",
            *([f"  launcher   vLLM's own, with {servers} API servers behind one queue"] if servers > 1 else []),
            *([] if plan.quick is None else [f"  start      quick: {QUICK_PRICE}; {plan.quick or 'all of it is set'}"]),
            *([f"  CPU start  {plan.cpu}"] if plan.cpu else []),
            *([f"  try        {plan.proposal}"] if plan.proposal else []),
        ]
    )


def _url(engine: Sequence[str]) -> str:
    if uds := value_of(engine, "--uds"):
        return f"unix:{uds}"
    if has(engine, "--config") and not has(engine, "--port"):
        return "the address of --config"
    host = value_of(engine, "--host") or "0.0.0.0"  # noqa: S104  # nosec B104 - vLLM's default, only shown
    scheme = "https" if has(engine, "--ssl-certfile") else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{preflight.port_of(engine)}"


def _print_help() -> None:
    parser = Parser(prog="headway serve", description=SUMMARY, epilog=EPILOG, formatter_class=formatter)
    configure(parser)
    parser.print_help()


def _serve(engine: Sequence[str], *, own_launcher: bool) -> int:
    if own_launcher:
        from headway.own_server.launch import serve

        return serve(engine)
    from headway.vllm_adapter import launch

    return launch.serve(engine)
