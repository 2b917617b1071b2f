"""``python -m headway_dashboard.export``: write the board or the rules."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from headway_dashboard.export.board import board_text
from headway_dashboard.export.rules_file import RUNBOOKS, rules_text

_FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Write one of them; the exit code is 0, or 1 where the file could not be read or written."""
    asked = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], None] = asked.run
    try:
        run(asked)
    except BrokenPipeError:  # the reader of the output left: the interpreter must not try again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except OSError as error:
        return _complain(f"{error.filename or 'the output'}: {error.strerror or error}")
    except ValueError as error:
        return _complain(str(error))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headway export", description="The catalogue for other programs.")
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    grafana = kinds.add_parser("grafana", help="the board of Grafana, as JSON")
    grafana.set_defaults(run=lambda asked: _write(asked.output, board_text()))
    rules = kinds.add_parser("rules", help="recorded series and alerts of Prometheus, as YAML")
    rules.add_argument("--runbooks", default=RUNBOOKS, metavar="URL")
    rules.set_defaults(run=lambda asked: _write(asked.output, rules_text(asked.runbooks)))
    for kind in (grafana, rules):
        kind.add_argument("--output", type=Path, metavar="FILE")
    return parser


def _write(output: Path | None, text: str) -> None:
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        output.write_text(text, encoding="utf-8")


def _complain(message: str) -> int:
    sys.stderr.write(f"headway: error: {message}\n")
    return _FAILED


if __name__ == "__main__":
    sys.exit(main())
