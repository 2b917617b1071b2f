"""The ``headway`` command: one module for each subcommand, one exit code for each kind of end.

Of the subcommands only the one that is called is imported: all of them take longer than most take to run.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from types import ModuleType

from headway.api import AdminError
from headway.errors import HeadwayError
from headway.release import version
from headway.settings import Environment
from headway_policies import PresetError
from headway_tools.console import (
    INTERRUPTED,
    CliError,
    Exit,
    Parser,
    add_command,
    as_cli_error,
    formatter,
    variable_lines,
)
from headway_tools.console.completion import SHELLS, PrintCompletion

__all__ = ["main"]

_ABOUT = (
    "Admission control and priority scheduling for vLLM, with live presets and a dashboard to watch and control it."
)

_EPILOG = f"""\
a first session:
  headway serve ./my-model --preset balanced       serve a model (all flags of vllm serve work)
  headway status                                   readiness, preset, limit, counts by class
  headway preset use throughput                    switch while it runs; no request is dropped
  headway pause, then headway resume               requests wait meanwhile; headway drain refuses them instead
  headway dashboard                                charts and controls in the browser
  headway demo                                     server, dashboard and sample traffic at once
  headway route --instances URL,URL                one queue in front of several vLLM servers
  headway simulate --preset latency                try a preset on a model of the engine
  headway bench --load 1.5                         load a running server, and measure it by your objectives
  headway batch requests.jsonl                     the lines of a file, in what other requests leave
  headway tune --out tuned.toml                    find the seats that suit a running server
  headway share --server URL --server URL --seats 48    the seats of one machine, between several models
  headway export grafana --output headway.json     the same charts for Grafana, and alerts for Prometheus (rules)

completion, in ~/.bashrc (zsh: the same in ~/.zshrc after compinit; fish: headway --print-completion fish | source):
  eval "$(headway --print-completion bash)"

environment:
{variable_lines((Environment.url, Environment.admin_token, Environment.keys_file, Environment.preset_dir))}

exit codes:
  0 done   1 the operation failed   2 wrong usage or input   3 server not reachable   4 token missing or wrong
  5 a preset on trial was taken back
"""

_MODULES = (
    "serve", "route", "status", "traffic", "usage", "preset", "control.fallback", "keys", "control.pause",
    "control.resume", "control.drain", "control.warmup", "control.recycle", "control.silence", "dashboard", "demo",
    "measuring.simulate", "measuring.bench", "batch", "measuring.tune", "share", "export", "doctor",
)  # fmt: skip
#: The module of each command, by its name, in the order of the help.
_COMMANDS = {module.rpartition(".")[2]: f"{__name__}.{module}" for module in _MODULES}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. ``--help`` and ``--version`` end through SystemExit, as in argparse."""
    words = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter still gets the others
    try:
        try:
            return _exit_code(words)
        finally:  # also where ``--help`` has printed, which ends through SystemExit
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output left (``headway status | head``)
        _give_up_stdout()
        return Exit.FAILED
    except OSError as error:  # the disk is full, say; for its own files a command answers itself
        _give_up_stdout()
        return _complain(f"the output could not be written: {error.strerror or error}", Exit.FAILED)


def _exit_code(words: list[str]) -> int:
    """The exit code of a command; an expected error is printed."""
    try:
        return _dispatch(words)
    except CliError as error:
        return _complain(str(error), error.code)
    except AdminError as error:
        ended = as_cli_error(error)
        return _complain(str(ended), ended.code)
    except PresetError as error:
        return _complain(str(error), Exit.USAGE)
    except HeadwayError as error:
        return _complain(str(error), Exit.FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _give_up_stdout() -> None:
    """Send the rest of its buffer nowhere, so that the interpreter does not try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["serve"]:  # its flags are mostly vLLM's, which argparse would reorder
        served: int = _command("serve").run(words[1:])
        return served
    parser = _parser(_wanted(words))
    chosen, unknown = parser.parse_known_args(words)
    if unknown:
        reader: Parser = getattr(chosen, "reader", parser)
        raise reader.unknown(unknown)
    if chosen.command is None:
        parser.print_help()
        return Exit.USAGE
    code: int = chosen.run(chosen)
    return code


def _wanted(words: Sequence[str]) -> Iterable[str]:
    """The commands that a parser of these words has to know; where the first is none of them, all, to list them."""
    if words and words[0] in _COMMANDS:
        return words[:1]
    return () if words == ["--version"] else _COMMANDS


def _command(name: str) -> ModuleType:
    return import_module(_COMMANDS[name])


def _parser(names: Iterable[str] = tuple(_COMMANDS)) -> Parser:
    parser = Parser(prog="headway", description=_ABOUT, epilog=_EPILOG, formatter_class=formatter)
    parser.add_argument("--version", action="version", version=f"headway {version()}")
    words = "print the completion of this command for a shell, to be sourced by it"
    parser.add_argument("--print-completion", action=PrintCompletion, choices=SHELLS, help=words)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for module in map(_command, names):
        module.configure(add_command(commands, module.NAME, module.SUMMARY, module.EPILOG))
    return parser


def _complain(message: str, code: int) -> int:
    print(f"headway: error: {' '.join(message.split())}", file=sys.stderr)
    return code
