"""A comparison as one self-contained HTML page, with the charts and plotly.js inside.

plotly itself is not imported: only the script in its package is read, and only when a page is asked for. The package
comes with the dashboard's.
"""

from __future__ import annotations

import html
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

from headway_simulator.report.charts import Chart

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2733; --soft: #5d6878; --line: #dde2e9; --ground: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9f0; --soft: #9aa6b6; --line: #333c48; --ground: #14181e; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); margin: 0 auto;
  max-width: 1080px; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.5rem 0 .1rem; }
p { color: var(--soft); margin: .1rem 0 .6rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; margin-top: 1rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem 1.1rem .2rem 0; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child { text-align: left; font-weight: 400; } tr.head th { font-weight: 600; padding-top: 1rem; }
"""

_DRAW = """
const dark = matchMedia("(prefers-color-scheme: dark)");
function draw() {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink"), line = style.getPropertyValue("--line");
  figures.forEach((figure, place) => {
    const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, dividercolor: line, automargin: true };
    const layout = { ...figure.layout, font: { color: ink, family: "system-ui, sans-serif" },
      xaxis: { ...figure.layout.xaxis, ...axis }, yaxis: { ...figure.layout.yaxis, ...axis } };
    Plotly.react(`chart-${place}`, figure.data, layout, { displaylogo: false, responsive: true });
  });
}
draw();
dark.addEventListener("change", draw);
"""


class NoPlotlyError(Exception):
    """plotly is not installed."""


def page(
    title: str,
    facts: Sequence[str],
    head: Sequence[str],
    rows: Sequence[tuple[str, list[str]]],
    charts: Sequence[Chart],
) -> str:
    """The page: facts as paragraphs, one table (a row without cells is a heading), the charts. Raises NoPlotlyError."""
    library = plotly_js()
    figures = json.dumps([chart.figure() for chart in charts], ensure_ascii=False).replace("</", "<\\/")
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{_STYLE}</style></head><body>",
            f"<h1>{html.escape(title)}</h1>",
            *[f"<p>{html.escape(fact)}</p>" for fact in facts],
            _table(head, rows) if rows else "",
            *[_section(place, chart) for place, chart in enumerate(charts)],
            f"<script>{library}</script>",
            f"<script>const figures = {figures};{_DRAW}</script>",
            "</body></html>\n",
        ]
    )


def _section(place: int, chart: Chart) -> str:
    caption = html.escape(chart.caption)
    return (
        f"<h2>{html.escape(chart.title)}</h2><p>{caption}</p>"
        f'<div id="chart-{place}" role="img" aria-label="{caption}"></div>'
    )


def _table(head: Sequence[str], rows: Sequence[tuple[str, list[str]]]) -> str:
    cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    lines = [f"<tr><th></th>{cells}</tr>"]
    for label, values in rows:
        kind = "" if values else ' class="head"'
        numbers = "".join(f"<td>{html.escape(value)}</td>" for value in values)
        lines.append(f"<tr{kind}><th>{html.escape(label)}</th>{numbers}</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def plotly_js() -> str:
    """The script that draws the charts. Raises NoPlotlyError."""
    spec = importlib.util.find_spec("plotly")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    for folder in folders:
        script = Path(folder) / "package_data" / "plotly.min.js"
        if script.is_file():
            return script.read_text(encoding="utf-8")
    raise NoPlotlyError("the page needs plotly")
