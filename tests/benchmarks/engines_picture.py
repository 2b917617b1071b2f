"""The picture of ``make bench-engines``: goodput over load, a panel for each engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP, _ACROSS = 190, 120, 44, 46, 34, 4
_OWN, _ALONE, _INK = "#0b7a75", "#c2410c", "#475569"
_MOST_LOAD, _MOST = 2.5, 1.1

#: Load, goodput of the ceiling, and that of the engine alone.
Curve = Sequence[tuple[float, float, float]]


def picture(curves: Mapping[str, Curve]) -> str:
    """An SVG with a panel for each engine; both goodputs are shares of the engine's fluid ceiling."""
    down = -(-len(curves) // _ACROSS)
    width = _LEFT + _ACROSS * (_WIDTH + _GAP)
    height = _TOP + down * (_HEIGHT + _GAP + 16) + 8
    panels = (_panel(name, curve, place) for place, (name, curve) in enumerate(curves.items()))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        f'font-size="11" fill="{_INK}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _legend(),
        *panels,
        "</svg>",
        "",
    ])  # fmt: skip


def _legend() -> str:
    return (
        f'<text x="{_LEFT}" y="16" font-size="13">Requests within both objectives, as a share of the most that the '
        "engine could serve; load 1 is that ceiling</text>"
        f'<text x="{_LEFT}" y="34"><tspan fill="{_OWN}">Headway, balanced, nothing tuned</tspan>'
        f'<tspan dx="18" fill="{_ALONE}">the engine alone</tspan></text>'
    )


def _panel(name: str, curve: Curve, place: int) -> str:
    x = _LEFT + place % _ACROSS * (_WIDTH + _GAP)
    y = _TOP + place // _ACROSS * (_HEIGHT + _GAP + 16)
    points = sorted(curve)
    parts = [f'<g transform="translate({x},{y})">', f'<text y="10" font-size="12">{escape(name)}</text>']
    for share in (0.0, 0.5, 1.0):
        at = _y(share)
        parts.append(f'<line x1="0" x2="{_WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e2e8f0"/>')
        parts.append(f'<text x="-6" y="{at + 4:.1f}" text-anchor="end">{share:g}</text>')
    marks = (0.5, 1.0, 1.5, 2.5)
    parts += [f'<text x="{_x(load):.1f}" y="{_HEIGHT + 28}" text-anchor="middle">{load:g}</text>' for load in marks]
    parts.append(_line(((load, alone) for load, _, alone in points), _ALONE))
    parts.append(_line(((load, own) for load, own, _ in points), _OWN))
    return "\n".join([*parts, "</g>"])


def _line(points: Iterable[tuple[float, float]], colour: str) -> str:
    drawn = [(_x(load), _y(share)) for load, share in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in drawn)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in drawn)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'


def _x(load: float) -> float:
    return _WIDTH * load / _MOST_LOAD


def _y(share: float) -> float:
    return 16 + _HEIGHT * (1 - min(share, _MOST) / _MOST)
