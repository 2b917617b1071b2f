"""Whether vLLM is kept from compiling the model."""

from __future__ import annotations

import pytest

from headway_tools.cli.serving.compilation import (
    COMPILED,
    NO_DYNAMO,
    Uncompiled,
    compiles,
    quick_start,
    without_compiler,
)

QUICK = Uncompiled(flags=("--enforce-eager",), environment={NO_DYNAMO: "1"})


@pytest.mark.parametrize(
    ("words", "config", "said"),
    [
        ([], "", None),
        (["--port", "1"], "port: 1\n", None),
        (["--enforce-eager"], "", False),
        ([], "enforce_eager: true\n", False),
        ([], "enforce-eager: false\n", True),
        (["--no-enforce-eager"], "", True),
        (["-O3"], "", True),
        (["-cc.mode=3"], "", True),
        (["--compilation-config", "{}"], "", True),
        (["--optimization-level=2"], "", True),
    ],
)
def test_what_the_user_says_of_compilation_is_read(words: list[str], config: str, said: bool | None) -> None:
    """From the command line and from vLLM's configuration file."""
    assert compiles(["m", *words], config) is said


@pytest.mark.parametrize(
    ("words", "environ", "expected"),
    [
        ([], {}, QUICK),
        ([], {NO_DYNAMO: "1"}, Uncompiled(flags=QUICK.flags)),
        (["--enforce-eager"], {}, Uncompiled(environment=QUICK.environment)),
        (["-O2"], {}, COMPILED),
        ([], {NO_DYNAMO: "0"}, COMPILED),
    ],
    ids=["nothing said", "the variable is set", "the flag is given", "a level", "the variable says no"],
)
def test_a_quick_start_adds_what_is_not_there_yet(
    words: list[str], environ: dict[str, str], expected: Uncompiled
) -> None:
    """A start is not quick where something of the user's asks for compilation."""
    assert quick_start(["m", *words], "", environ, cpu=True) == expected


def test_a_quick_start_on_a_gpu_is_a_flag_alone() -> None:
    """The variable is for the CPU backend, where a request for logprobs compiles in the middle of a step."""
    assert quick_start(["m"], "", {}, cpu=False) == Uncompiled(flags=QUICK.flags)


def test_without_a_compiler_the_variable_is_set_whatever_the_flags_say() -> None:
    """A compilation would end with an error; a variable of the user's is theirs."""
    assert without_compiler(["m"], "", {}) == QUICK
    assert without_compiler(["m", "-O2"], "", {}) == Uncompiled(environment=QUICK.environment)
    assert without_compiler(["m"], "", {NO_DYNAMO: "0"}) == Uncompiled()
    assert Uncompiled().words() == ""
    assert QUICK.words() == "--enforce-eager TORCHDYNAMO_DISABLE=1"
