"""``headway serve``: vLLM's own server, started in this process.

Headway calls vLLM's launcher functions instead of its command: the CPU build of vLLM is installed under another
distribution name, and its command dies on that. And a failed start ends with one clear line instead of a traceback.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from headway.checks.start import refusals
from headway.errors import HeadwayError, NoEngineError
from headway.settings import SERVE_FLAGS, SERVE_USAGE
from headway.vllm_adapter.endpoint import HeadwayEndpoint
from headway.vllm_adapter.logs.format import log_json_lines
from headway.vllm_adapter.process.death_cause import (
    forget_death_cause,
    one_line,
    prepare_death_cause,
    why_not_started,
)
from headway.vllm_adapter.process.engine_sockets import own_folder, remove_folder
from headway.vllm_adapter.process.interrupted_start import INTERRUPTED, TERMINATED, interruptible
from headway.vllm_adapter.process.parent_watch import remove_at_the_end, watch_this_process
from headway_policies import PresetError
from headway_policies.close_name import did_you_mean

DRAIN_S = 30
_DRAIN = "shutdown_timeout"
_USAGE = 2  # the exit code of argparse
_MAX_CAUSE_CHARS = 400
_KILLED = "-9}"  # the end of vLLM's list of ended processes with their exit codes

#: Where releases keep the launcher's parts (0.33, 0.29 to 0.32, before).
_ARGUMENTS = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.openai.cli_args",
)
_SERVERS = ("vllm.entrypoints.launchers.api_server.entry", "vllm.entrypoints.openai.api_server")
_STARTUP = ("vllm.entrypoints.common.startup", "vllm.entrypoints.serve.utils.api_utils", "vllm.entrypoints.utils")


def serve(vllm_argv: Sequence[str]) -> int:
    """Run ``vllm serve`` with these arguments until it ends; returns the exit code.

    Raises NoEngineError, HeadwayError or PresetError with one line when the server does not start.
    """
    args = parse(vllm_argv)
    if found := refusals(args, os.environ):
        raise HeadwayError("; ".join(found))
    log_json_lines()
    if (getattr(args, "api_server_count", None) or 1) > 1 or getattr(args, "headless", False):
        raise HeadwayError("headway serve takes no --headless, and --api-server-count from 1 to 64, written in full")
    import uvloop

    run_server = _find(_SERVERS, "run_server")
    HeadwayEndpoint.replaces_engine = True
    watch_this_process()
    remove_at_the_end(prepare_death_cause())
    silence_resource_trackers()
    interruptible.armed = True
    sockets = own_folder()
    try:
        uvloop.run(run_server(args))
    except KeyboardInterrupt as interrupt:
        sys.stderr.write("headway: stopped before the server was ready\n")
        return TERMINATED if interrupt.args else INTERRUPTED  # vLLM's for SIGTERM has a text, Python's for SIGINT none
    except (HeadwayError, PresetError):
        raise
    except OSError as error:
        raise HeadwayError(f"the server could not start: {error}") from error
    except Exception as error:
        raise NoEngineError(f"the engine did not start: {cause_of_failure(error)}") from error
    finally:
        forget_death_cause()
        remove_folder(sockets)
    control = HeadwayEndpoint.serving
    if control is not None and control.gateway.link.engine_lost:
        raise NoEngineError("the engine died while it was serving; the cause is in the log above")
    return 0


def show_help() -> None:
    """Print vLLM's own options."""
    _parser().print_help(sys.stdout)


def silence_resource_trackers() -> None:
    """Keep multiprocessing's warnings of shared memory out of the log: they come after its last line.

    The trackers remove the memory of killed processes all the same.
    """
    others = [rule for rule in os.environ.get("PYTHONWARNINGS", "").split(",") if rule]
    os.environ["PYTHONWARNINGS"] = ",".join([*others, "ignore:resource_tracker:UserWarning"])


def parse(vllm_argv: Sequence[str]) -> Any:
    """The arguments of ``vllm serve``, with the time to drain that ``headway serve`` gives by default."""
    parser = _parser()
    if parser.get_default(_DRAIN) == 0:
        parser.set_defaults(**{_DRAIN: DRAIN_S})
    args = parser.parse_args(list(vllm_argv))
    if getattr(args, "model_tag", None) is not None:
        args.model = args.model_tag
    _find(_ARGUMENTS, "validate_parsed_serve_args")(args)
    args.api_server_count = getattr(args, "api_server_count", None)
    return args


def command() -> Any:
    """The function of vLLM's ``serve`` command, which runs a launcher for several API servers or the Rust front end."""
    return _find(("vllm.entrypoints.cli.serve",), "ServeSubcommand").cmd


def set_up_log(args: Any) -> None:
    """Set up vLLM's log in a process that has not started a server yet; releases before 0.32 do so when imported."""
    set_up = getattr(importlib.import_module("vllm.logger"), "configure_logging_from_args", None)
    if set_up is not None:
        set_up(args)


def _parser() -> Any:
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    _find(_STARTUP, "cli_env_setup")()
    make: Any = FlexibleArgumentParser
    parser = make(prog="headway serve", description="vLLM's own options")
    parser = _find(_ARGUMENTS, "make_arg_parser")(parser)
    parser.error = lambda message: _refuse(message, parser._option_string_actions)
    return parser


def _refuse(message: str, flags: Iterable[str]) -> NoReturn:
    """End with a short usage and the error, as argparse does: vLLM's own usage has 300 lines, with the error last."""
    wrong = next((word for word in message.split() if word.startswith("--")), "")
    close = did_you_mean(wrong.partition("=")[0], [*SERVE_FLAGS, *flags])
    sys.stderr.write(f"usage: {SERVE_USAGE}\n       vLLM's flags: headway serve --help=all\n")
    sys.stderr.write(f"headway: error: {message}{close}\n")
    raise SystemExit(_USAGE)


def _find(modules: Sequence[str], name: str) -> Any:
    """A function of vLLM's launcher, from the module in which this release keeps it."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise NoEngineError(f"this release of vLLM has no {name} where Headway knows to look; tried {', '.join(modules)}")


def cause_of_failure(error: BaseException) -> str:
    """The reason of a failed start in one line: a validation's findings, or the error of the process that failed."""
    findings = getattr(error, "errors", None)
    if callable(findings):
        text = "; ".join(str(finding.get("msg", finding)).removeprefix("Value error, ") for finding in findings())
        return " ".join(text.split())[:_MAX_CAUSE_CHARS]
    text = why_not_started() or one_line(error)
    if _KILLED in text:
        text += "; killed by SIGKILL, as the system does when memory runs out"
    return f"{text} (the engine's own log is above)"
