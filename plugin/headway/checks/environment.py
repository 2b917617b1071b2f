"""The findings about the variables: each by itself, several together, and names that are no variable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from headway.checks.finding import Finding, fail, ok, warn, wrong
from headway.errors import HeadwayError
from headway.fallback import check_late_classes, target_from_environment
from headway.http import Bounds, RequestRules, Tokens
from headway.http.access import RouteTable, TrustedProxies
from headway.keys import KeysFileError, read_keys_file
from headway.operator import scaling_from_environment
from headway.patches import switched_off
from headway.settings import PREFIX, VARIABLES, Environment
from headway_policies.close_name import did_you_mean

_TOGETHER: Final[tuple[tuple[str, Callable[[Mapping[str, str]], Any]], ...]] = (
    ("bounds of requests", Bounds.from_environment),
    ("opened and closed routes", RouteTable.from_environment),
    ("trusted proxies", TrustedProxies.from_environment),
    ("fallback model", target_from_environment),
    ("caps and checks of requests", RequestRules.from_environment),
    ("patches of vLLM", switched_off),
    ("number of instances", lambda environment: scaling_from_environment(environment, 1)),
)


def check_environment(environment: Mapping[str, str]) -> Iterator[Finding]:
    """All findings, each once; functions of the operator's own are imported."""
    yield from check_keys_file(environment)
    yield from dict.fromkeys([*check_tokens(environment), *check_values(environment)])
    yield from check_names(environment)


def check_keys_file(environment: Mapping[str, str]) -> Iterator[Finding]:
    """The errors of the keys file; a missing file is a warning of the start."""
    path = Environment(environment).keys_file
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
    if read.ring.has_budgets and Environment(environment).usage_db is None:
        yield fail(f"keys file {path}: its budgets need the accounting", f"set {Environment.usage_db.name} to a file")
    yield ok(f"keys file {path}: {len(read.ring.keys)} keys of {len(read.ring.tenants)} tenants")


def check_tokens(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the tokens of the admin API can be used."""
    try:
        tokens = Tokens.from_environment(environment)
    except HeadwayError as error:
        yield wrong(error)
        return
    if tokens:
        yield ok("the admin API is on")
    else:
        yield warn(
            "the admin API is off: no status, no preset switch, no dashboard",
            "set HEADWAY_ADMIN_TOKEN_FILE to a file with a token: openssl rand -hex 32",
        )


def check_values(environment: Mapping[str, str]) -> Iterator[Finding]:
    """The findings about each variable by itself, and about several together."""
    for name, read in (*(("", variable.read) for variable in VARIABLES), *_TOGETHER):
        try:
            read(environment)
        except HeadwayError as error:
            yield wrong(error)
        else:
            if name:
                yield ok(f"{name}: no error")


def check_fixed_reply(environment: Mapping[str, str], known: Collection[str]) -> Iterator[Finding]:
    """The finding about a class of the fixed reply that no preset has, whose classes are ``known``."""
    try:
        check_late_classes(environment, known)
    except HeadwayError as error:
        yield wrong(error)


#: The variables of the shipped systemd units and compose files, which become words of the command line.
_OF_UNITS = frozenset({
    "HOST", "KEYS", "MODEL", "PORT", "PRESET_NAME", "SERVE_FLAGS", "SHARE_FLAGS", "SHARE_SEATS", "SHARE_SERVERS",
})  # fmt: skip


def check_names(environment: Mapping[str, str]) -> Iterator[Finding]:
    """The variables with Headway's prefix that nothing reads: probably misspelt."""
    known = {name.removeprefix(PREFIX) for variable in VARIABLES for name in variable.names} | _OF_UNITS
    given = {name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX)}
    for name in sorted(given - known):
        advice = did_you_mean(name, sorted(known), "").replace("mean ", f"mean {PREFIX}", 1)
        yield warn(f"{PREFIX}{name}: no such variable, so without effect", advice or "remove it, or correct its name")
    if given <= known:
        yield ok(f"{len(given)} variables with the prefix {PREFIX}, all known")
