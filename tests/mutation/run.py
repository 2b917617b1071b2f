"""Mutation tests with faults that mutmut generates; at least 90 % must be detected, of some targets less.

    python tests/mutation/run.py [--all | --each N] [--seed N] [--at-once N] [word of a file ...]

Prints for each file how many faults were tried and detected, then each undetected one: those of ``accepted.toml`` with
the accepted reason, the others in full. Without ``--all`` a sample of each file is tried, the same one for the same
seed. What mutmut does not change: decorated functions, code outside of functions, whole statements.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from stage import Fate, Stage, Target

HERE = Path(__file__).parent
MIN_NOTICED = 0.9
EACH = 40
SEED = 20


@dataclass(frozen=True, slots=True)
class Accepted:
    """A fault that need not be noticed, and why: in these functions of a file ``old`` becomes ``new``."""

    file: str
    functions: str
    old: str
    new: str
    why: str

    def is_about(self, fate: Fate) -> bool:
        """Whether this is that fault."""
        same = (self.file, self.old, self.new) == (fate.file, fate.old, fate.new)
        return same and fnmatch(fate.function, self.functions)


def targets(words: list[str]) -> Iterator[Target]:
    """What to try: the files with one of these words in their path, or all."""
    for one in tomllib.loads((HERE / "targets.toml").read_text(encoding="utf-8")).values():
        files = tuple(file for file in one["files"] if not words or any(word in file for word in words))
        if files:
            yield Target(files, tuple(one["tests"]), one.get("least_ratio", MIN_NOTICED))


def accepted() -> list[Accepted]:
    """The faults that need not be noticed."""
    groups = tomllib.loads((HERE / "accepted.toml").read_text(encoding="utf-8"))["group"]
    return [Accepted(**({"functions": "*"} | one), why=group["why"]) for group in groups for one in group["faults"]]


def explained(fate: Fate, known: list[Accepted]) -> str | None:
    """The accepted reason why no test detects this fault; None where there is none."""
    return next((one.why for one in known if one.is_about(fate)), None)


def tried(target: Target, most: int | None, seed: int, at_once: int) -> list[Fate]:
    """What became of the faults of one target."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder), target)
        stage.run(stage.sample(most, seed), at_once)
        return stage.fates()


def table(fates: list[Fate]) -> Iterator[str]:
    """A line for each file, and one for all."""
    yield f"{'file':34}{'faults':>8}{'noticed':>9}{'time-out':>10}{'not':>6}{'score':>9}"
    for file in [*dict.fromkeys(fate.file for fate in fates), "all"]:
        own = [fate for fate in fates if file in (fate.file, "all")]
        noticed, timed_out = sum(one.noticed for one in own), sum(one.timed_out for one in own)
        score = f"{noticed / len(own):.1%}"
        yield f"{file:34}{len(own):8}{noticed - timed_out:9}{timed_out:10}{len(own) - noticed:6}{score:>9}"


def unnoticed(fates: Iterable[Fate], known: list[Accepted]) -> Iterator[str]:
    """Every fault that no test noticed, the accepted ones first."""
    lived = [(explained(fate, known), fate) for fate in fates if not fate.noticed]
    for why, one in sorted(lived, key=lambda pair: pair[0] is None):
        yield f"{one.file}, {one.function}: {why or 'NOT EXPLAINED'}"
        yield f"  - {one.old}"
        yield f"  + {one.new}"


def say(lines: Iterable[str]) -> None:
    """Print it, line by line."""
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """0 when enough faults were noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="only files with this word in their path")
    parser.add_argument("--all", action="store_true", help="every fault there is: an hour on two cores")
    parser.add_argument("--each", type=int, default=EACH, metavar="N", help=f"faults of each file (default: {EACH})")
    parser.add_argument("--seed", type=int, default=SEED, metavar="N", help=f"of the sample (default: {SEED})")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="processes (default: 2)")
    options = parser.parse_args(arguments)
    most = None if options.all else options.each
    by_ratio: dict[float, list[Fate]] = {}
    for target in targets(options.words):
        by_ratio.setdefault(target.least_ratio, []).extend(tried(target, most, options.seed, options.at_once))
    fates = [fate for several in by_ratio.values() for fate in several]
    say(unnoticed(fates, accepted()))
    say(table(fates))
    return int(any(sum(one.noticed for one in own) < least * len(own) for least, own in by_ratio.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
