"""The page of the commands, read from their parsers."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from unittest.mock import patch

from headway_site.tables import page, table
from headway_tools.cli import _parser


def commands() -> str:
    """Every command with its arguments, and the examples of its help."""
    with patch.dict(os.environ, {"HEADWAY_URL": ""}):
        parser = _parser()
    return page(
        "Commands",
        "The commands of `headway`. `headway serve` also takes every flag of `vllm serve`.",
        f"```text\n{(parser.epilog or '').rstrip()}\n```",
        *_parts(parser, 2),
    )


def _parts(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    for name, child in _children(parser).items():
        yield f"{'#' * level} {parser.prog if level == 2 else child.prog.rpartition(' ')[0]} {name}"
        if child.description:
            yield _text(child.description)
        if rows := list(_arguments(child)):
            yield table(["argument", "meaning"], rows)
        if child.epilog:
            yield f"```text\n{child.epilog.strip()}\n```"
        yield from _parts(child, level + 1)


def _children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0]) if found else {}


def _arguments(parser: argparse.ArgumentParser) -> Iterator[list[str]]:
    for action in parser._actions:
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)) or action.help == argparse.SUPPRESS:
            continue
        value = (
            action.metavar if isinstance(action.metavar, str) else (action.dest.upper() if action.nargs != 0 else "")
        )
        names = ", ".join(action.option_strings) or value
        shown = f"{names} {value}" if action.option_strings and value else names
        yield [f"`{shown}`", _text((action.help or "-") % _values(action, parser)).replace("|", "\\|")]


def _values(one: argparse.Action, parser: argparse.ArgumentParser) -> dict[str, object]:
    return {**vars(one), "prog": parser.prog, "choices": ", ".join(map(str, one.choices or ()))}


def _text(words: str) -> str:
    return " ".join(words.split())
