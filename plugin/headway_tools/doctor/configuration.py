"""Checks of the configuration: what a server would refuse to start with, its files, tokens and variables."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError
from headway.fallback import target_from_environment
from headway.http import Bounds, Tokens
from headway.http.access import RouteTable, TrustedProxies
from headway.http.admin.rules import AdminRules
from headway.http.inference.request_rules import RequestRules
from headway.keys import KeysFileError, keys_path, read_keys_file
from headway.logs.settings import LogSettings
from headway.operator import scaling_from_environment
from headway.vllm_adapter.patches import switched_off
from headway.vllm_adapter.start_checks import cautions
from headway_tools.console import DEFAULT_PRESET, UsageError, find_preset, open_catalogue
from headway_tools.doctor.engine_flags import check_engine_flags
from headway_tools.doctor.finding import Finding, fail, ok, warn
from headway_tools.doctor.variables import check_variables

_READERS: tuple[tuple[str, Callable[[Mapping[str, str]], Any]], ...] = (
    ("bounds of requests", Bounds.from_environment),
    ("opened and closed routes", RouteTable.from_environment),
    ("trusted proxies", TrustedProxies.from_environment),
    ("fallback model", target_from_environment),
    ("caps and checks of requests", RequestRules.from_environment),
    ("rules of the admin API", AdminRules.from_environment),
    ("form of the log", LogSettings.from_environment),
    ("patches of vLLM", switched_off),
    ("number of instances", lambda environment: scaling_from_environment(environment, 1)),
)


def check_configuration(args: Namespace, environment: Mapping[str, str], folder: Path | None) -> Iterator[Finding]:
    """All of them. ``args`` are those of ``vllm serve``, ``folder`` that of the operator's presets."""
    yield from check_start(args, environment)
    yield from check_engine_flags(args)
    yield from check_keys_file(environment)
    yield from check_tokens(environment)
    yield from check_presets(environment, folder)
    yield from check_readers(environment)
    yield from check_variables(environment)


def check_start(args: Namespace, environment: Mapping[str, str]) -> Iterator[Finding]:
    """What a server refuses to start with, and what it warns of."""
    found = cautions(args, environment)
    for one in found:
        yield (fail if one.refuses else warn)(one.what, one.remedy)
    if not found:
        yield ok("nothing in the arguments or the environment forbids a start")


def check_keys_file(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Each error of the keys file; that there is none is a warning of the start."""
    path = keys_path(environment)
    if path is None:
        return
    try:
        read = read_keys_file(path)
    except KeysFileError as error:
        for problem in error.problems:
            where = f" {problem.where}:" if problem.where else ""
            line = "" if problem.line is None else f" (line {problem.line})"
            yield fail(f"keys file {path}{line}:{where} {problem.what}", problem.remedy)
        return
    if read.warning is not None:
        what, _, remedy = read.warning.rpartition("; ")
        yield warn(f"keys file {what}", remedy)
    yield ok(f"keys file {path}: {len(read.ring.keys)} keys of {len(read.ring.tenants)} tenants")


def check_tokens(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the tokens of the admin API can be used."""
    try:
        tokens = Tokens.from_environment(environment)
    except HeadwayError as error:
        yield fail(str(error), "correct the variable or the file that it names")
        return
    if tokens:
        yield ok("the admin API is on")
    else:
        yield warn(
            "the admin API is off: no status, no preset switch, no dashboard",
            "set HEADWAY_ADMIN_TOKEN_FILE to a file with a token: openssl rand -hex 32",
        )


def check_presets(environment: Mapping[str, str], folder: Path | None) -> Iterator[Finding]:
    """Whether all presets can be read, and the one of the start is among them."""
    wanted = environment.get("HEADWAY_PRESET") or DEFAULT_PRESET
    try:
        catalogue = open_catalogue(folder)
        chosen = find_preset(wanted, catalogue)
    except UsageError as error:
        yield fail(str(error), "correct it, and check with: headway preset validate FILE")
        return
    yield ok(f"{len(list(catalogue))} presets, {chosen.preset.name} at the start ({chosen.source})")


def check_readers(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Variables that a server reads at its start; functions of the operator's own are imported."""
    for name, read in _READERS:
        try:
            read(environment)
        except HeadwayError as error:
            yield fail(str(error), "correct the variable, or unset it for the usual value")
        else:
            yield ok(f"{name}: no error")
