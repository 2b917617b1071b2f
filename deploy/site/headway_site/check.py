"""The check of every Markdown file: links and anchors lead somewhere, and names of code exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from headway.operator.metrics import METRIC_NAMES
from headway.settings import VARIABLES
from headway_dashboard.analysis.catalogue.alerts import RULES
from headway_site.tables import ROOT
from headway_tools.cli import _COMMANDS

_LINK = re.compile(r"\]\((?!\w+:)([^)\s#]*)(?:#([^)\s]*))?\)")
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
#: Read by Compose and by no program of Headway.
_OF_COMPOSE = {"HEADWAY_MODEL", "HEADWAY_KEYS"}
_SUFFIXES = ("_bucket", "_sum", "_count")


def documents() -> list[Path]:
    """Every Markdown file of the tree but the results of benchmarks."""
    folders = ("plugin", "policies", "dashboard", "deploy")
    return sorted([*ROOT.glob("*.md"), *(path for folder in folders for path in (ROOT / folder).rglob("*.md"))])


def problems(path: Path) -> Iterator[str]:
    """The problems of a file, a line for each."""
    text = path.read_text(encoding="utf-8")
    for target, anchor in _LINK.findall(_CODE.sub("", text)):
        found = path.parent / target if target else path
        if not found.exists():
            yield f"{target}: no such file"
        elif anchor and anchor not in _anchors(found):
            yield f"{target}#{anchor}: no such heading"
    yield from (f"{name}: no such name" for name in sorted(_named(text) - _names()))


#: Packages, whose names look like those of metrics.
_PACKAGES = {f"headway_{name}" for name in ("dashboard", "fleet", "policies", "simulator", "site", "tools")}


def _named(text: str) -> set[str]:
    """The variables, metrics, alerts and commands that a text names."""
    code = "\n".join(_CODE.findall(text)) + "\n".join(re.findall(r"^    .*", text, re.MULTILINE))
    metrics = re.findall(r"\bheadway_[a-z_]+[a-z]\b(?![./*])", code)
    names = {next((name.removesuffix(end) for end in _SUFFIXES if name.endswith(end)), name) for name in metrics}
    names -= _PACKAGES
    names |= set(re.findall(r"\bHEADWAY_[A-Z_]+[A-Z]\b", text)) | set(re.findall(r"\bHeadway[A-Z]\w+", code))
    return names | {f"headway {name}" for name in re.findall(r"(?:`|^    |\|)headway ([a-z]+)\b", text, re.MULTILINE)}


@cache
def _names() -> set[str]:
    variables = {name for variable in VARIABLES for name in variable.names} | _OF_COMPOSE
    commands = {f"headway {name}" for name in _COMMANDS}
    return variables | commands | set(METRIC_NAMES) | {rule.name for rule in RULES} | {"HeadwayError"}


@cache
def _anchors(path: Path) -> set[str]:
    """The anchors that a page gives its headings."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def main() -> int:
    """Print every problem; the exit code is 1 where there are any."""
    found = [f"{path.relative_to(ROOT)}: {problem}" for path in documents() for problem in problems(path)]
    print(*found, sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
