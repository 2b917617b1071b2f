"""The picture of ``--only step``: the time between tokens over time, while a long prompt is computed beside streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import log10

_WIDTH, _HEIGHT, _LEFT, _TOP = 700, 220, 64, 56
_COLOURS, _INK = ("#c2410c", "#0b7a75"), "#475569"
_MARKS_MS = (10, 30, 100, 300, 1000, 3000, 10000)
_BEFORE_S = 2.0

#: Seconds from the prompt on, and the longest time between tokens that ended in the tenth of a second from there.
Course = Sequence[tuple[float, float]]


def picture(courses: Mapping[str, Course]) -> str:
    """An SVG with a line for each; the times between tokens are on a logarithmic scale."""
    early = {words: [one for one in course if one[0] >= -_BEFORE_S] for words, course in courses.items()}
    shown = {words: course for words, course in early.items() if course}
    gaps_ms = [1000 * gap_s for course in shown.values() for _, gap_s in course] or [10.0, 100.0]
    low, high = log10(max(1.0, 0.7 * min(gaps_ms))), log10(1.3 * max(gaps_ms))
    until_s = max((course[-1][0] for course in shown.values()), default=1.0)
    across, up = _WIDTH / (_BEFORE_S + until_s), _HEIGHT / max(high - low, 1e-6)

    def x(at_s: float) -> float:
        return _LEFT + across * (at_s + _BEFORE_S)

    def y(gap_ms: float) -> float:
        return _TOP + _HEIGHT - up * (log10(max(gap_ms, 1.0)) - low)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 16}" height="{_TOP + _HEIGHT + 44}" '
        f'font-family="sans-serif" font-size="11" fill="{_INK}">',
        f'<rect width="{_LEFT + _WIDTH + 16}" height="{_TOP + _HEIGHT + 44}" fill="white"/>',
        f'<text x="{_LEFT}" y="16" font-size="13">Longest time between tokens of eight streams; at 0 s a prompt of 32 '
        "times the mean length arrives</text>",
    ]
    for mark in _MARKS_MS:
        if low <= log10(mark) <= high:
            words = f"{mark} ms" if mark < 1000 else f"{mark // 1000} s"
            lines.append(f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y(mark):.1f}" y2="{y(mark):.1f}" '
                         f'stroke="#e2e8f0"/><text x="{_LEFT - 8}" y="{y(mark) + 4:.1f}" text-anchor="end">{words}'
                         "</text>")  # fmt: skip
    step_s = max(1, round(until_s / 8))
    lines += [
        f'<text x="{x(at_s):.1f}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle">{at_s} s</text>'
        for at_s in range(0, int(until_s) + 1, step_s)
    ]
    lines.append(f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="{_TOP}" y2="{_TOP + _HEIGHT}" stroke="#94a3b8" '
                 'stroke-dasharray="4 3"/>')  # fmt: skip
    for place, (words, course) in enumerate(shown.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        path = " ".join(f"{x(at_s):.1f},{y(1000 * gap_s):.1f}" for at_s, gap_s in course)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        lines.append(f'<text x="{_LEFT + 330 * place}" y="36" fill="{colour}">{escape(words)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"
