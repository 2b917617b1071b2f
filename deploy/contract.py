"""The contract with vLLM: the names that the adapter uses, written from its code, and what of them a release lacks.

    contract.py [FOLDER ...]          a line for each name that the release in a folder lacks; default: the installed
    contract.py --write [FOLDER ...]  write the contract anew; the folders hold the releases that are not looked up yet

A folder holds the package `vllm`. Nothing of vLLM is imported.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from contract_uses import Use, uses

from headway_tools.doctor.contract import Contract, Name, VllmSource, breaks
from headway_tools.doctor.contract.names import FILE

_HEAD = """\
# The names of vLLM that Headway uses or replaces. Written by `make contract ARGS=--write`; do not edit by hand.
# `not_in`: the releases without the name, or where it was not looked up. Headway works without an optional name.
"""


def main(argv: list[str] | None = None) -> int:
    """Print what releases lack, or write the contract; the exit code is 1 where a needed name is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--write", action="store_true", help="write the contract anew")
    options = parser.parse_args(argv)
    sources = [VllmSource(folder / "vllm") for folder in options.folders]
    if wrong := [source.package.parent for source in sources if not source.version]:
        parser.error(f"{wrong[0]}: has no package vllm")
    if not sources and (installed := VllmSource.installed()):
        sources = [installed]
    if options.write:
        FILE.write_text(rendered(contract_of(uses(), Contract.read(), sources)), encoding="utf-8")
        return 0
    missing = [found for source in sources for found in breaks(Contract.read(), source)]
    print("\n".join(map(str, missing)) or "nothing is missing")
    return int(any(found.name.needed for found in missing))


def contract_of(found: Iterable[Use], known: Contract, sources: Iterable[VllmSource]) -> Contract:
    """The contract of these uses. The facts about releases without a source are kept."""
    read = {source.version: source for source in sources}
    releases = tuple(sorted({*known.releases, *read}, key=_numbers))
    seen = {name.text: name.seen for name in known.names}
    names = [
        Name(use.text, use.needed, use.by, tuple(
            release for release in releases
            if (lookup(use, read[release]) if release in read else release in seen.get(use.text, ()))
        )) for use in found
    ]  # fmt: skip
    return Contract(releases, tuple(names))


def lookup(use: Use, source: VllmSource) -> bool:
    """Whether a release has what is used."""
    return Name(use.text, use.needed, use.by).is_in(source)


def rendered(contract: Contract) -> str:
    """The contract as a file."""
    lines = [_HEAD + f"releases = {_listed(contract.releases)}"]
    for section, needed in (("needed", True), ("optional", False)):
        lines.append(f"\n[{section}]")
        for name in (name for name in contract.names if name.needed is needed):
            lacking = [release for release in contract.releases if release not in name.seen]
            more = f", not_in = {_listed(lacking)}" if lacking else ""
            lines.append(f'"{name.text}" = {{ by = {_listed(name.used_by)}{more} }}')
    return "\n".join(lines) + "\n"


def _listed(words: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("+")[0].split(".") if part.isdigit())


if __name__ == "__main__":
    sys.exit(main())
