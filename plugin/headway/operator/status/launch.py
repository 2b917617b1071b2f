"""How this process was started, and the last warnings of its log: the part of the status that says it in its own words.

The status is shown to viewers: values that may be secret are hidden, whichever way vLLM's parser takes them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from headway.api import schema
from headway.logs import last_warnings
from headway.settings import SECRET_NAMES, VARIABLES
from headway.utc_text import utc_text

HIDDEN: Final = "[hidden]"
MAX_CHARS: Final = 300
_SECRET_WORDS: Final = frozenset(
    {"auth", "authorization", "cookie", "credential", "credentials", "header", "headers", "key", "keys", "passphrase"}
    | {"passwd", "password", "pwd", "secret", "secrets", "token"}
)
#: The ends of words that are written as one: ``apikey``.
_SECRET_ENDS: Final = ("key", "passwd", "password", "secret", "token")
#: vLLM's, which its parser also takes in short: ``--api-k``.
_SECRET_FLAGS: Final = ("--api-key", "--hf-token", "--ssl-keyfile-password")
_WORDS: Final = re.compile(r"[a-z]+")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NAMES: Final = re.compile(r"[\"']?([\w.-]+)[\"']?\s*[:=]")
_LOGIN: Final = re.compile(r"//[^/\s]*@")


@cache
def launch_status() -> schema.LaunchStatus:
    """The program of this process with its arguments, and the variables that are set for it."""
    arguments = [Path(sys.argv[0]).name, *shown_arguments(sys.argv[1:])]
    return schema.LaunchStatus(arguments=arguments, variables=shown_variables(os.environ))


def shown_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments; in place of those of a secret flag, and of a value with a secret in it, that it is hidden."""
    secret = False
    for word in arguments:
        if not word.startswith("--"):
            yield HIDDEN if secret else _shown(word)
            continue
        flag, equals, value = word.partition("=")
        secret = _is_secret(flag)
        yield flag + (f"={HIDDEN if secret else _shown(value)}" if equals else "")


def shown_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The set variables of Headway, without secrets and the variables for a server's own processes."""
    names = (variable.name for variable in VARIABLES if variable.of != "child processes")
    return {
        name: _shown(environment[name]) for name in sorted(names) if environment.get(name) and name not in SECRET_NAMES
    }


def warning_lines() -> list[schema.LogWarning]:
    """The last warnings of the log, the newest first."""
    return [
        schema.LogWarning(
            time=utc_text(line.last_s), level=line.level, logger=line.logger, message=line.message, times=line.times
        )
        for line in last_warnings()
    ]


def _is_secret(name: str) -> bool:
    """Whether the value of this name may be a secret, by the words of the name."""
    flag = name.lower().replace("_", "-")
    if len(flag) > len("--") and any(known.startswith(flag) for known in _SECRET_FLAGS):
        return True
    words = _WORDS.findall(_CAMEL.sub("-", name).lower())
    return any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDS) for word in words)


def _shown(value: str) -> str:
    """A value, without a login in an address; hidden if a field of it may be secret."""
    if any(_is_secret(name) for name in _NAMES.findall(value)):
        return HIDDEN
    value = _LOGIN.sub(f"//{HIDDEN}@", value)
    return value if len(value) <= MAX_CHARS else f"{value[:MAX_CHARS]}…"
