"""The install commands of the documents, read as pip reads them."""

from __future__ import annotations

import functools
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_server import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WHEEL = f"vllm_headway-{PROJECT['version']}-py3-none-any.whl"
#: Options that take the next word.
TAKING = {"-c", "-r", "--python", "--wheel-dir"}


def _commands() -> Iterator[tuple[str, str]]:
    """(document, words after `pip install` or `pip wheel`) of all documents and image files."""
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "deploy").glob("Dockerfile.*")]
    documents += [
        path for part in ("deploy", "plugin", "dashboard", "policies") for path in (ROOT / part).rglob("*.md")
    ]
    for path in sorted(documents):
        for words in re.findall(r"\bpip (?:install|wheel) ([^`\n]+)", path.read_text(encoding="utf-8")):
            yield str(path.relative_to(ROOT)), words.partition(";")[0]


COMMANDS = list(_commands())


def _requirements(words: str) -> Iterator[tuple[str, bool]]:
    """(requirement, whether it is editable) of a command."""
    left = iter(shlex.split(words.rstrip("\\"), comments=True))
    for word in left:
        if word in TAKING:
            next(left)
        elif word in ("-e", "--editable"):
            yield next(left), True
        elif not word.startswith("-") and "$" not in word and "*" not in word:
            yield word, False


#: In a process of its own: pip loads a distutils that torch does not bear beside it.
_READER = """
import json, sys
from pip._internal.req.constructors import install_req_from_editable, install_req_from_line
def read(requirement, editable):
    try:
        found = (install_req_from_editable if editable else install_req_from_line)(requirement)
    except Exception as error:
        return str(error)
    return {"name": found.name, "extras": sorted(found.extras)}
print(json.dumps([read(*one) for one in json.load(sys.stdin)]))
"""


def _read_by_pip(requirements: list[tuple[str, bool]]) -> list[dict[str, Any] | str]:
    """The name and the extras of each, or pip's error."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _READER], input=json.dumps(requirements), capture_output=True, text=True,
        cwd=ROOT, check=True,
    )  # fmt: skip
    found: list[dict[str, Any] | str] = json.loads(done.stdout)
    return found


@functools.cache
def _of_all_commands() -> dict[tuple[str, bool], dict[str, Any] | str]:
    requirements = sorted({found for _, words in COMMANDS for found in _requirements(words)})
    return dict(zip(requirements, _read_by_pip(requirements), strict=True))


@pytest.mark.parametrize(("document", "words"), COMMANDS, ids=[f"{name}: {words}" for name, words in COMMANDS])
def test_every_install_command_is_one_that_pip_accepts(document: str, words: str) -> None:
    """With extras that exist, and a wheel of this version."""
    for requirement, editable in _requirements(words):
        read = _of_all_commands()[requirement, editable]
        assert isinstance(read, dict), f"{document}: {read}"
        file = Path(requirement.partition("[")[0]).name
        if read["name"] == PROJECT["name"] or requirement.startswith((".", "dist/")):
            assert set(read["extras"]) <= PROJECT["optional-dependencies"].keys(), document
        if file.endswith(".whl"):
            assert file == WHEEL, document


def test_the_first_command_of_the_readme_makes_the_wheel_that_the_second_installs() -> None:
    """Before anything else is shown."""
    (first, second, *_) = [words for document, words in COMMANDS if document == "README.md"]
    assert first == "--no-deps --wheel-dir dist ."
    assert second == f"dist/{WHEEL}"


def test_pip_refuses_what_is_no_requirement() -> None:
    """The reader of these tests notices a command that would fail."""
    (read,) = _read_by_pip([("vllm-headway[gpu,dashboard] @ .", False)])
    assert "Invalid requirement" in read
