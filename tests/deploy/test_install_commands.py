"""The install commands of the documents, read as pip reads them."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pip._internal.req.constructors import install_req_from_editable, install_req_from_line
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


@pytest.mark.parametrize(("document", "words"), COMMANDS, ids=[f"{name}: {words}" for name, words in COMMANDS])
def test_every_install_command_is_one_that_pip_accepts(
    document: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With extras that exist, and a wheel of this version."""
    monkeypatch.chdir(ROOT)
    for requirement, editable in _requirements(words):
        read = (install_req_from_editable if editable else install_req_from_line)(requirement)
        file = Path(requirement.partition("[")[0]).name
        if read.name == PROJECT["name"] or requirement.startswith((".", "dist/")):
            assert set(read.extras) <= PROJECT["optional-dependencies"].keys(), document
        if file.endswith(".whl"):
            assert file == WHEEL, document


def test_the_first_command_of_the_readme_makes_the_wheel_that_the_second_installs() -> None:
    """Before anything else is shown."""
    (first, second, *_) = [words for document, words in COMMANDS if document == "README.md"]
    assert first == "--no-deps --wheel-dir dist ."
    assert second == f"dist/{WHEEL}"


def test_pip_refuses_what_is_no_requirement() -> None:
    """The reader of these tests notices a command that would fail."""
    with pytest.raises(Exception, match="Invalid requirement"):
        install_req_from_line("vllm-headway[gpu,dashboard] @ .")
