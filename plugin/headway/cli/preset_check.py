"""``headway preset diff`` and ``validate``: how do two presets differ, and is a file fit for use?"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from headway.cli.exits import Exit
from headway.cli.known import find_preset, open_catalogue, preset_dir
from headway.cli.parser import add_json
from headway.cli.table import setting_text, table
from headway_policies import PresetError, changes, load_preset
from headway_policies.conformance.presets import failures

DIFF_SUMMARY = "Show what differs between two presets, setting by setting."
DIFF_EPILOG = """\
examples:
  headway preset diff latency throughput
  headway preset diff balanced ./night.toml         what my file changes
  headway preset diff balanced ./night.toml --json  for scripts

A dash stands for a setting that one of them does not have.
exit codes, as diff has them: 0 no setting differs   1 some do   2 unknown preset or bad file
"""
VALIDATE_SUMMARY = "Check preset files: errors, settings that are probably not meant, policies of your own."
VALIDATE_EPILOG = """\
examples:
  headway preset validate ./night.toml
  headway preset validate presets/*.toml && deploy
  PYTHONPATH=. headway preset validate ./mine.toml  its policy is a class of this folder

A warning is no error: the file works, but perhaps not as you hope. A policy named by import path (package.module:Class)
is imported, which runs its code, and has to pass the conformance suite of its kind.
exit codes: 0 all are valid, with warnings or without   2 at least one is not
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said about one file; ``preset`` is None where it could not be read."""

    file: str
    preset: str | None
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def configure_diff(parser: argparse.ArgumentParser) -> None:
    """Add the options of diff."""
    parser.add_argument("one", metavar="A", help="a preset or a file")
    parser.add_argument("other", metavar="B", help="a preset or a file")
    parser.add_argument("--preset-dir", metavar="DIR", help="a folder with presets of your own")
    add_json(parser)
    parser.set_defaults(run=diff)


def configure_validate(parser: argparse.ArgumentParser) -> None:
    """Add the options of validate."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="a preset file")
    add_json(parser)
    parser.set_defaults(run=validate)


def diff(chosen: argparse.Namespace) -> int:
    """Print the differences; 0 without, 1 with some."""
    folder = preset_dir(chosen.preset_dir, os.environ)
    # A catalogue each: two files may bear one name.
    one, other = (find_preset(wanted, open_catalogue(folder)).preset for wanted in (chosen.one, chosen.other))
    found = changes(one, other)
    if chosen.json:
        print(json.dumps({"a": one.name, "b": other.name, "changes": [asdict(change) for change in found]}))
    elif found:
        rows = [[change.setting, setting_text(change.before), setting_text(change.after)] for change in found]
        print(table(["setting", one.name, other.name], rows, indent=""))
    else:
        print("no setting differs")
    return Exit.FAILED if found else Exit.OK


def validate(chosen: argparse.Namespace) -> int:
    """Print a verdict for each file; 2 when one of them is not valid."""
    verdicts = [_judge(file) for file in chosen.files]
    if chosen.json:
        print(json.dumps([asdict(one) for one in verdicts], ensure_ascii=False))
    else:
        print("\n".join(line for one in verdicts for line in _lines(one)))
    return Exit.USAGE if any(one.errors for one in verdicts) else Exit.OK


def _judge(file: str) -> Verdict:
    try:
        preset = load_preset(file)
    except PresetError as error:
        return Verdict(file, None, [str(error).removeprefix(file).lstrip(": ")])
    return Verdict(file, preset.name, failures(preset), preset.warnings())


def _lines(verdict: Verdict) -> Iterator[str]:
    yield f"{verdict.file}: {'error' if verdict.errors else 'ok'}"
    yield from (f"  error: {text}" for text in verdict.errors)
    yield from (f"  warning: {text}" for text in verdict.warnings)
