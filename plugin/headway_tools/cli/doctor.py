"""``headway doctor``: what is wrong or unsafe here, and what to do about it."""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict

from headway.checks.finding import Finding, Severity, worst
from headway.settings import Environment
from headway_tools.cli.serving.compilation import compiles
from headway_tools.cli.serving.cpu_start import choose, workers
from headway_tools.cli.serving.environment import behind_queue, config_text, value_in
from headway_tools.console import (
    Exit,
    Machine,
    ServeWords,
    add_json,
    add_url,
    cpu_backend,
    has,
    has_vllm,
    preset_dir,
    read_machine,
    split,
    value_of,
)
from headway_tools.doctor import check_configuration, check_machine, check_server, check_versions

NAME = "doctor"
SUMMARY = "Check the configuration, the machine and a running server, with a remedy for each finding."
EPILOG = """\
examples:
  headway doctor                                    what is installed, this machine, and this environment
  headway doctor ./my-model --host 0.0.0.0          and these words of `headway serve`, which must come last
  headway doctor --url http://10.0.0.5:8000         and what that server answers to a client without a key
  headway doctor --json | python3 -m json.tool

A finding fails where a server would not start, or is open to strangers; a warning names what could be safer, an info
what a choice of yours costs.
Nothing is started, generated or changed.
exit codes: 0 nothing failed   1 something did   2 wrong usage
"""
_WIDTH = 110
#: Arguments of vLLM by their names, with their short flags: whole numbers, and switches.
_NUMBERS = {
    "data_parallel_size": "-dp", "data_parallel_size_local": "-dpl", "data_parallel_rank": "-dpn",
    "data_parallel_start_rank": "-dpr", "nnodes": "-n", "max_num_seqs": "", "shutdown_timeout": "",
}  # fmt: skip
_YES = ("true", "yes", "on")
_SWITCHES = {
    "data_parallel_external_lb": "-dpe", "data_parallel_hybrid_lb": "-dph",
    "data_parallel_multi_port_external_lb": "-dpm", "enable_elastic_ep": "", "enable_ssl_refresh": "", "grpc": "",
    "headless": "",
}  # fmt: skip

Sections = dict[str, list[Finding]]


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser, default=False)
    add_json(parser)
    parser.add_argument(
        "engine", nargs=argparse.REMAINDER, metavar="MODEL ...", help="the words of `headway serve`, to check them, too"
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Print all findings; 1 if a check fails, else 0."""
    words = chosen.engine[1:] if chosen.engine[:1] == ["--"] else chosen.engine
    url = None if chosen.url is None else chosen.url.rstrip("/")
    found = examine(words, url, os.environ)
    findings = [finding for several in found.values() for finding in several]
    print(as_json(found) if chosen.json else text(found))
    return Exit.FAILED if worst(findings) is Severity.FAIL else Exit.OK


def examine(words: Sequence[str], url: str | None, environ: Mapping[str, str]) -> Sections:
    """The findings of every section, by its name. ``words`` are those of ``headway serve``."""
    ours = split(words)
    environment = dict(environ)
    if ours.preset is not None:
        environment[Environment.preset.name] = ours.preset
    machine = read_machine(environment)
    given = arguments(ours.engine, environment, quick_start=ours.quick_start)
    sections = {
        "installed": check_versions(),
        "machine": check_machine(
            machine, ours.engine, environment, _cpu_start(machine, ours, environment), port=url is None
        ),
        "configuration": check_configuration(given, environment, preset_dir(ours.preset_dir, environment)),
    }
    if url is not None:
        sections[url] = check_server(url)
    return {name: list(findings) for name, findings in sections.items()}


def arguments(
    engine: Sequence[str], environ: Mapping[str, str] = os.environ, *, quick_start: bool = False
) -> Namespace:
    """The arguments of vLLM that the checks need, from its words and its ``--config`` file.

    ``quick_start``: a start without compilation is asked for, unless those say otherwise.
    """
    config = config_text(engine)

    def given(flag: str, short: str = "") -> str | None:
        return value_of(engine, flag) or (value_of(engine, short) if short else None) or value_in(config, flag)

    def number(name: str, short: str) -> int | None:
        said = given(_flag(name), short)
        return int(said) if said is not None and said.isascii() and said.isdecimal() else None

    def switched(name: str, short: str) -> bool:
        flag = _flag(name)
        return has(engine, flag) or (bool(short) and short in engine) or (value_in(config, flag) or "").lower() in _YES

    checked = given("--ssl-cert-reqs")
    compiled = compiles(engine, config)
    return Namespace(
        host=given("--host"),
        uds=given("--uds"),
        ssl_certfile=given("--ssl-certfile"),
        api_key=_keys(engine) or ([key] if (key := value_in(config, "--api-key")) else None),
        workers=workers(engine, config),
        enforce_eager=compiled is False or (quick_start and compiled is None),
        root_path=given("--root-path"),
        ssl_ca_certs=given("--ssl-ca-certs"),
        ssl_cert_reqs=int(checked) if checked is not None and checked.isdecimal() else checked,
        behind_one_queue=behind_queue(engine, config, environ),
        data_parallel_backend=given("--data-parallel-backend", "-dpb"),
        kv_transfer_config=_object(given("--kv-transfer-config")),
        **{name: number(name, short) for name, short in _NUMBERS.items()},
        **{name: switched(name, short) for name, short in _SWITCHES.items()},
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _object(text: str | None) -> object:
    """The object of a JSON text, which may be quoted; None for anything else, which vLLM refuses."""
    with suppress(ValueError):
        found = json.loads((text or "").strip("'"))
        return found if isinstance(found, dict) else None
    return None


def _keys(engine: Sequence[str]) -> list[str]:
    """The words behind ``--api-key``, which takes several."""
    found: list[str] = []
    for place, word in enumerate(engine):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == "--api-key":
            rest = engine[place + 1 :]
            end = next((at for at, word in enumerate(rest) if word.startswith("-")), len(rest))
            found += [value] if equals else rest[:end]
    return found


def _cpu_start(machine: Machine, ours: ServeWords, environment: Mapping[str, str]) -> Finding | None:
    """The start that vLLM's CPU backend would get; None for any other backend."""
    if not (has_vllm() and cpu_backend()):
        return None
    start = choose(machine, ours.engine, config_text(ours.engine), environment, quick=ours.quick_start)
    if start.warning is not None:
        return Finding(Severity.WARN, start.warning, "set VLLM_CPU_KVCACHE_SPACE to the memory that is left, in GiB")
    chosen = start.line() or "as vLLM starts by itself, or as you have set it"
    return Finding(Severity.OK, f"CPU start: {chosen}{f'; try {start.proposal}' if start.proposal else ''}")


def text(found: Sections) -> str:
    """The findings as text: a section each, a remedy under what is not ok, and the counts."""
    lines: list[str] = []
    for name, findings in found.items():
        lines += [name, *(line for finding in findings for line in _lines(finding)), ""]
    counts = dict.fromkeys(Severity, 0)
    for findings in found.values():
        for finding in findings:
            counts[finding.severity] += 1
    return "\n".join([*lines, ", ".join(f"{number} {severity}" for severity, number in counts.items())])


def _lines(one: Finding) -> Iterable[str]:
    """A finding on one line or several, with its remedy below."""
    yield from _wrapped(one.what, f"  {one.severity:<5} ")
    if one.remedy:
        yield from _wrapped(one.remedy, " " * 8 + "-> ")


def _wrapped(text: str, start: str) -> list[str]:
    """A text below its start, broken at spaces only: a path in a command stays whole."""
    below = " " * len(start)
    return textwrap.wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=below, break_on_hyphens=False, break_long_words=False
    )


def as_json(found: Sections) -> str:
    """The same for scripts."""
    findings = [{"section": name, **asdict(finding)} for name, several in found.items() for finding in several]
    severity = worst(finding for several in found.values() for finding in several)
    return json.dumps({"severity": severity, "findings": findings})
