"""The timeline of the strategies for a page: a cell for each seat and step, and the cells appear in their turn.

A cell holds the step in which a prompt is computed, a token that is generated, the last one of a sequence, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headway_simulator.studies.timeline import SEATS, Timeline

LEFT, STEP, ROW = 56, 36, 22
_HEAD, _GAP, _STEP_S = 26, 14, 0.4
#: Readable on white and on dark grey.
_STYLE = """<style>
text { font: 13px sans-serif; fill: #8a93a3 }
.name { fill: #ffffff }
.prompt { fill: #b8860b } .token { fill: #3b8bd0 } .end { fill: #d1495b } .idle { fill: #8a93a3; fill-opacity: 0.15 }
.cell { animation: appear 0.3s both }
@keyframes appear { from { opacity: 0 } }
@media (prefers-reduced-motion: reduce) { .cell { animation: none } }
</style>"""
_LEGEND = {"prompt": "prompt", "token": "token", "end": "last token", "idle": "empty seat"}


def animated(timelines: Sequence[Timeline]) -> str:
    """All strategies, one below the other, as SVG; it plays once."""
    lines: list[str] = []
    top = 0
    for timeline in timelines:
        lines.append(_text(0, top + 16, timeline.words))
        for seat in range(1, SEATS + 1):
            y = top + _HEAD + (seat - 1) * ROW
            lines.append(_text(0, y + 15, f"seat {seat}"))
            lines += _cells(timeline, seat, y)
        top += _HEAD + SEATS * ROW + _GAP
    for place, (kind, words) in enumerate(_LEGEND.items()):
        x = LEFT + place * 3 * STEP
        lines += [_rect(kind, x, top), _text(x + STEP + 4, top + 15, words)]
    width, height = LEFT + STEP * max(timeline.steps for timeline in timelines), top + ROW
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', _STYLE, *lines, "</svg>\n"])


def _cells(timeline: Timeline, seat: int, y: int) -> Iterator[str]:
    kinds, names = ["idle"] * timeline.steps, [""] * timeline.steps
    for bar in timeline.bars:
        if bar.seat == seat:
            kinds[bar.begin : bar.end] = ["prompt", *["token"] * (bar.end - bar.begin - 2), "end"]
            names[bar.begin] = bar.sequence
    for step, (kind, name) in enumerate(zip(kinds, names, strict=True)):
        label = _text(LEFT + step * STEP + 8, y + 14, name, "name") if name else ""
        delay = f' style="animation-delay: {step * _STEP_S:.1f}s"'
        yield f'<g class="cell"{delay}>{_rect(kind, LEFT + step * STEP, y)}{label}</g>'


def _rect(kind: str, x: int, y: int) -> str:
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{STEP - 2}" height="{ROW - 3}" rx="3"/>'


def _text(x: int, y: int, words: str, kind: str = "") -> str:
    return f'<text{f" class={kind!r}" if kind else ""} x="{x}" y="{y}">{words}</text>'
