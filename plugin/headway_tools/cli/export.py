"""``headway export``: what the dashboard knows of the metrics, for Grafana and for Prometheus."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

from headway_tools.console import Parser, UsageError, add_command, check_folder, install_command

NAME = "export"
SUMMARY = "Write a Grafana board, or recorded series and alerts for Prometheus."
EPILOG = """\
examples:
  headway export grafana --output headway.json                  a board to import into Grafana
  headway export rules --output rules.yml                       alerts and recorded series for Prometheus
  headway export rules --runbooks https://wiki/headway          with links into a page of yours

Panels, alerts and their thresholds are those of the dashboard. No server is asked.
"""
_GRAFANA = """\
In Grafana: Dashboards, New, Import. The board asks for its Prometheus, and has a row for each page of the dashboard.
"""
_RULES = """\
Name the file under rule_files in the configuration of Prometheus. Its time limits are those of the bundled presets.
"""


def configure(parser: Parser) -> None:
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    grafana = add_command(kinds, "grafana", "Write the board of Grafana, as JSON.", _GRAFANA)
    rules = add_command(kinds, "rules", "Write the rules of Prometheus, as YAML.", _RULES)
    rules.add_argument("--runbooks", metavar="URL", help="the page that the alerts link to, for its sections")
    for action in (grafana, rules):
        action.add_argument("--output", metavar="FILE", help="write to this file (default: standard output)")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Become the process that writes it; returns only by raising UsageError."""
    if importlib.util.find_spec("headway_dashboard") is None:
        raise UsageError(f"the dashboard is not installed; install it with: {install_command('dashboard')}")
    if chosen.output is not None:
        check_folder(chosen.output)
    sys.stdout.flush()
    os.execv(sys.executable, command(chosen))  # noqa: S606 - this interpreter, no shell


def command(chosen: argparse.Namespace) -> list[str]:
    """The command line of the process that writes it."""
    words = [sys.executable, "-m", "headway_dashboard.export", chosen.kind]
    options = {"--output": chosen.output, "--runbooks": getattr(chosen, "runbooks", None)}
    return words + [f"{option}={value}" for option, value in options.items() if value is not None]
