"""``headway preset``: lists and shows presets. Its other actions are in ``presets``."""

from __future__ import annotations

import argparse
import json
import os

from headway.api import PresetEntry
from headway.operator import Listed
from headway_policies.preset import effective, seat_words, without_effect
from headway_tools.cli.presets import forecast, preset_check, preset_use, recommend
from headway_tools.cli.presets.preset_use import unknown_preset
from headway_tools.console import (
    Parser,
    UsageError,
    add_command,
    add_json,
    add_url,
    connect,
    find_preset,
    open_catalogue,
    preset_dir,
    setting_text,
    table,
)

NAME = "preset"
SUMMARY = "List, show, compare, check and recommend presets; switch a running server to another."
EPILOG = """\
examples:
  headway preset list                               bundled presets and the presets of HEADWAY_PRESET_DIR
  headway preset list --url http://127.0.0.1:8000   presets of a running server; * marks the preset in force
  headway preset show latency
  headway preset diff balanced ./night.toml         the differences
  headway preset validate ./night.toml              errors and warnings of your own file
  headway preset recommend --latency-sensitive      a preset that fits, and the reason
  headway preset forecast latency throughput        their effect on the recent traffic of a server
  headway preset use throughput --reason "nightly jobs"
  headway preset use latency --revert-after 10m     on trial: back after ten minutes unless you keep it
  headway preset undo                               back to the preset before
A switch takes effect at once and drops no request: fewer seats drain, more seats fill.
"""


def configure(parser: Parser) -> None:
    actions = parser.add_subparsers(
        dest="action", metavar="list|show|diff|validate|recommend|forecast|use|keep|undo", required=True
    )
    for name, configure_action, summary, epilog in (
        ("list", _configure_list, "List presets, on this machine or with --url of a server.", EPILOG),
        ("show", _configure_show, "Show every setting of a preset, on this machine or with --url of a server.", EPILOG),
        ("diff", preset_check.configure_diff, preset_check.DIFF_SUMMARY, preset_check.DIFF_EPILOG),
        ("validate", preset_check.configure_validate, preset_check.VALIDATE_SUMMARY, preset_check.VALIDATE_EPILOG),
        ("recommend", recommend.configure, recommend.SUMMARY, recommend.EPILOG),
        ("forecast", forecast.configure, forecast.SUMMARY, forecast.EPILOG),
        ("use", preset_use.configure_use, preset_use.USE_SUMMARY, preset_use.USE_EPILOG),
        ("keep", preset_use.configure_keep, preset_use.KEEP_SUMMARY, preset_use.KEEP_EPILOG),
        ("undo", preset_use.configure_undo, preset_use.UNDO_SUMMARY, preset_use.UNDO_EPILOG),
    ):
        configure_action(add_command(actions, name, summary, epilog))


def _configure_list(parser: argparse.ArgumentParser) -> None:
    _add_where(parser)
    parser.set_defaults(run=_list)


def _configure_show(parser: argparse.ArgumentParser) -> None:
    _add_where(parser)
    parser.add_argument("name", metavar="NAME", help="a preset or a file")
    parser.set_defaults(run=_show_one)


def _add_where(parser: argparse.ArgumentParser) -> None:
    add_url(parser, default=False)
    add_json(parser)
    parser.add_argument("--preset-dir", metavar="DIR", help="a folder with your own presets")


def _list(chosen: argparse.Namespace) -> int:
    current, entries, ceiling = _entries(chosen)
    if chosen.json:
        _print_json({"current": current, "presets": [entry.model_dump() for entry in entries]})
        return 0
    rows = [
        [
            "*" if entry.name == current else "",
            entry.name,
            seat_words(entry.settings, ceiling),
            _batching(entry),
            entry.source,
            entry.description,
        ]
        for entry in entries
    ]
    print(table(["", "preset", "seats", "batching", "from", "description"], rows, indent=""))
    return 0


def _batching(entry: PresetEntry) -> str:
    """The strategy, with the window where it applies."""
    strategy = str(entry.settings.get("batching.strategy") or "-")
    window_ms = effective(entry.settings).get("batching.window_ms")
    return strategy if window_ms is None else f"{strategy}, {setting_text(window_ms)} ms"


def _show_one(chosen: argparse.Namespace) -> int:
    entry, ceiling = _entry(chosen)
    if chosen.json:
        _print_json(entry.model_dump())
        return 0
    print(f"{entry.name}  ({entry.source})\n{entry.description}\nseats: {seat_words(entry.settings, ceiling)}\n")
    ignored = without_effect(entry.settings)
    rows = [
        [key, setting_text(value) + (f"  # no effect {ignored[key]}" if key in ignored else "")]
        for key, value in entry.settings.items()
    ]
    print(table(["setting", "value"], rows))
    return 0


def _entries(chosen: argparse.Namespace) -> tuple[str | None, list[PresetEntry], int | None]:
    """The name in force, all presets, and the engine's ceiling; without a server neither name nor ceiling is known."""
    if chosen.url is not None:
        with connect(chosen.url, os.environ) as client:
            answer, status = client.presets(), client.status()
        return answer.current.name, answer.presets, status.limit.ceiling
    return None, [_as_entry(known) for known in open_catalogue(preset_dir(chosen.preset_dir, os.environ))], None


def _entry(chosen: argparse.Namespace) -> tuple[PresetEntry, int | None]:
    if chosen.url is None:
        catalogue = open_catalogue(preset_dir(chosen.preset_dir, os.environ))
        return _as_entry(find_preset(chosen.name, catalogue)), None
    _, entries, ceiling = _entries(chosen)
    named = {entry.name: entry for entry in entries}
    if chosen.name not in named:
        raise UsageError(unknown_preset(chosen.name, list(named)))
    return named[chosen.name], ceiling


def _as_entry(listed: Listed) -> PresetEntry:
    preset = listed.preset
    return PresetEntry(
        name=preset.name,
        description=preset.description,
        source=listed.source,
        settings=dict(preset.settings()),
    )


def _print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False))
