"""Whether vLLM compiles the model: as vLLM does by itself, but where no compiler is, or for a quick start.

Compiled, a token takes less time for as long as the server runs, and the start takes longer. So a start without
compilation is an option (``headway serve --quick-start``), except on machines without a C++ compiler, where a compiled
one is impossible.

``--enforce-eager`` keeps vLLM from compiling the model, ``TORCHDYNAMO_DISABLE`` on the CPU backend from compiling the
functions around it, such as that of logprobs at their first request (v1/sample/ops/logprobs.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headway_tools.cli.serving.environment import value_in
from headway_tools.console import has

EAGER: Final = "--enforce-eager"
NO_DYNAMO: Final = "TORCHDYNAMO_DISABLE"
#: The gain of a quick start, and its cost for as long as the server runs; the quick start has them, too.
QUICK_PRICE: Final = "ready half a minute to a minute sooner, each token takes a quarter longer (a 135M model, 2 cores)"

_COMPILING = ("--no-enforce-eager", "--compilation-config", "-cc", "--optimization-level")
_LEVEL = re.compile(r"-O|-cc\.|--compilation-config\.")
_TRUE = ("true", "True", "yes", "on", "1")


@dataclass(frozen=True, slots=True)
class Uncompiled:
    """The flags and variables of a start without compilation; ``asked`` is False for a start with compilation."""

    asked: bool = True
    flags: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def words(self) -> str:
        """Both settings as typed; empty without any."""
        return " ".join([*self.flags, *(f"{name}={value}" for name, value in self.environment.items())])


COMPILED: Final = Uncompiled(asked=False)


def quick_start(engine: Sequence[str], config: str, environ: Mapping[str, str], *, cpu: bool) -> Uncompiled:
    """The flags that a quick start adds; none where a flag, the ``--config`` file or a variable wants compilation."""
    said = compiles(engine, config)
    if said or environ.get(NO_DYNAMO) == "0":
        return COMPILED
    variables = {NO_DYNAMO: "1"} if cpu and NO_DYNAMO not in environ else {}
    return Uncompiled(flags=(EAGER,) if said is None else (), environment=variables)


def without_compiler(engine: Sequence[str], config: str, environ: Mapping[str, str]) -> Uncompiled:
    """The settings of the CPU backend where nothing can be compiled; the user's variable and flags stay as they are."""
    if NO_DYNAMO in environ:
        return Uncompiled()
    flags = (EAGER,) if compiles(engine, config) is None else ()
    return Uncompiled(flags=flags, environment={NO_DYNAMO: "1"})


def compiles(engine: Sequence[str], config: str) -> bool | None:
    """Whether the user's flags or ``--config`` file ask for compilation; None where they say nothing about it."""
    if has(engine, EAGER) or value_in(config, EAGER) in _TRUE:
        return False
    named = any(has(engine, flag) or value_in(config, flag) is not None for flag in (EAGER, *_COMPILING))
    return True if named or any(_LEVEL.match(word) for word in engine) else None
