"""The generated pages of the documentation: ``python deploy/site/reference.py`` writes them, ``--check`` compares."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from headway_site import bounds, commands, interfaces, presets, works_with

from headway_simulator.studies.animation import animated
from headway_simulator.studies.timeline import timelines

DOCS = Path(__file__).parent / "docs"
ASSETS = Path(__file__).parents[2] / "dashboard" / "headway_dashboard" / "assets"
PICTURES = (DOCS / "explain" / "batching.svg", ASSETS / "batching.svg")
PAGES: dict[str, Callable[[], str]] = {
    "reference/presets": presets.presets,
    "reference/settings": presets.settings,
    "reference/states": presets.states,
    "reference/environment": interfaces.environment,
    "reference/routes": interfaces.routes,
    "reference/errors": interfaces.errors,
    "reference/metrics": interfaces.metrics,
    "reference/panels": interfaces.panels,
    "operate/runbooks": interfaces.runbooks,
    "reference/patches": interfaces.patches,
    "reference/works-with": works_with.works_with,
    "reference/bounds": bounds.bound_table,
    "reference/commands": commands.commands,
}


def stale() -> list[str]:
    """The names of the pages that are not what the code says now, and of files that no page is written to."""
    differing = [name for name, written in PAGES.items() if _text(DOCS / f"{name}.md") != written()]
    differing += [path.name for path in PICTURES if _text(path) != animated(timelines())]
    return differing + [path.name for path in DOCS.glob("reference/*.md") if f"reference/{path.stem}" not in PAGES]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main() -> int:
    """Write all pages, or name the stale ones; the exit code is 1 where there are any."""
    if sys.argv[1:] == ["--check"]:
        found = stale()
        print(*(f"{name}: run make reference" for name in found), sep="\n")
        return int(bool(found))
    for name, written in PAGES.items():
        (DOCS / f"{name}.md").write_text(written(), encoding="utf-8")
    for path in PICTURES:
        path.write_text(animated(timelines()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
