"""``headway preset diff`` and ``validate``: compare two presets, and check preset files."""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field

from headway_policies import PresetError, changes, load_preset
from headway_policies.conformance.limits import RULES, Rule
from headway_policies.conformance.presets import ACCEPTABLE, failures
from headway_policies.preset import LACKS, Issue, differences, effective, lint, no_effect
from headway_tools.console import Exit, add_json, find_preset, open_catalogue, preset_dir, setting_text, table

PLACES = {place.name.lower(): place for place in LACKS}

DIFF_SUMMARY = "Show the differences between two presets, setting by setting."
DIFF_EPILOG = """\
examples:
  headway preset diff latency throughput
  headway preset diff balanced ./night.toml         the changes of my file
  headway preset diff balanced ./night.toml --json  for scripts

A dash stands for a setting that a preset lacks, or that does nothing in it, such as a window under continuous
batching. Settings that do nothing in both presets are named below the table.
exit codes, as of diff: 0 no setting differs   1 some differ   2 unknown preset or bad file
"""


def _rule(rule: Rule) -> str:
    """A rule in the help: its name, a star where it may be accepted, its sentence."""
    words = textwrap.fill(rule.statement, 88, subsequent_indent=" " * 26)
    return f"  {'*' if rule.acceptable else ' '} {rule.name:<20}  {words}\n"


VALIDATE_SUMMARY = "Check preset files: errors, settings without effect, and custom policies."
VALIDATE_EPILOG = f"""\
examples:
  headway preset validate ./night.toml
  headway preset validate presets/*.toml && deploy
  headway preset validate ./night.toml --place route      settings without effect in front of other servers
  headway preset validate ./night.toml --json       errors with file, line, key and value, for scripts
  PYTHONPATH=. headway preset validate ./mine.toml  with a policy class of this folder
  PYTHONPATH=. headway preset validate ./mine.toml --accept recovers

All errors of a file are listed; settings are compared with each other once each is valid by itself. A warning is not
an error: the file is valid, but a setting may not have the expected effect. A policy named by import path
(package.module:Class) is imported, which runs its code, and must pass the conformance suite of its kind. The rules of
a limit policy follow; those with a star may be broken on purpose, with --accept:
{"".join(_rule(rule) for rule in RULES.values())}
exit codes: 0 all are valid, with warnings, accepted rules or without   2 at least one is not
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one file; ``preset`` is None where it could not be read.

    ``accepted`` are the errors that the author breaks a rule with on purpose.
    """

    file: str
    preset: str | None
    errors: list[Issue] = field(default_factory=list)
    accepted: list[Issue] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def configure_diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("one", metavar="A", help="a preset or a file")
    parser.add_argument("other", metavar="B", help="a preset or a file")
    parser.add_argument("--preset-dir", metavar="DIR", help="a folder with your own presets")
    add_json(parser)
    parser.set_defaults(run=diff)


def configure_validate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="a preset file")
    parser.add_argument(
        "--accept",
        metavar="RULE",
        action="append",
        choices=ACCEPTABLE,
        default=[],
        help=f"a limit policy may break this rule; again for each ({', '.join(ACCEPTABLE)})",
    )
    parser.add_argument(
        "--place", choices=PLACES, help="warn of settings that cannot act there, as the server itself does at its start"
    )
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
        acting = differences(effective(one.settings()), effective(other.settings()))
        rows = [[change.setting, setting_text(change.before), setting_text(change.after)] for change in acting]
        if rows:
            print(table(["setting", one.name, other.name], rows, indent=""))
        idle = {change.setting for change in found}.difference(change.setting for change in acting)
        if idle:
            print(f"without effect in either: {', '.join(sorted(idle))}")
    else:
        print("no setting differs")
    return Exit.FAILED if found else Exit.OK


def validate(chosen: argparse.Namespace) -> int:
    """Print a verdict for each file; 2 if a file is not valid."""
    verdicts = [_judge(file, chosen.accept, chosen.place) for file in chosen.files]
    if chosen.json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], ensure_ascii=False))
    else:
        print("\n".join(line for verdict in verdicts for line in _lines(verdict)))
    return Exit.USAGE if any(verdict.errors for verdict in verdicts) else Exit.OK


def _judge(file: str, accept: Collection[str], place: str | None) -> Verdict:
    try:
        preset = load_preset(file)
    except PresetError as error:
        return Verdict(file, None, list(error.issues))
    found = failures(preset)
    errors = [finding for finding in found if finding.rule not in accept]
    void = {} if place is None else no_effect(preset, LACKS[PLACES[place]], stated_only=True)
    warnings = [*lint(preset), *void.values()]
    return Verdict(file, preset.name, errors, [finding for finding in found if finding.rule in accept], warnings)


def _lines(verdict: Verdict) -> Iterator[str]:
    yield f"{verdict.file}: {'error' if verdict.errors else 'ok'}"
    for error in verdict.errors:
        yield f"  error: {_text(error, verdict.file)}"
        if error.rule in ACCEPTABLE:
            yield f"    if intended: --accept {error.rule}"
    yield from (f"  accepted: {_text(finding, verdict.file)}" for finding in verdict.accepted)
    yield from (f"  warning: {text}" for text in verdict.warnings)


def _text(issue: Issue, file: str) -> str:
    """The issue, and in which file, where that is another than the one that was given."""
    inherited = issue.file is not None and issue.file != file
    return f"in {issue.file}: {issue}" if inherited else str(issue).removeprefix(f"{file}: ")
