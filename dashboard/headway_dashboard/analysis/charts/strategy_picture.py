"""A picture of static and continuous batching: seven sequences on four seats, as SVG.

All seven wait at step 0. A static batch of exactly four begins together; the last three wait for a fourth that does
not come, until ``FLUSH_STEPS``. Under continuous batching each free seat is filled with the next step. The simulator of
the command line draws the same from its engine model; this picture is computed from the lengths alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from headway_dashboard.analysis.catalogue import palette

SEATS = 4
#: Output lengths of S1 to S7, in engine steps.
LENGTHS = (4, 8, 3, 6, 5, 4, 2)
#: When a static batch that is not full begins all the same.
FLUSH_STEPS = 10

_COLOURS = (palette.BLUE, palette.ORANGE, palette.GREEN, palette.RED, palette.PURPLE, palette.GOLD, palette.BROWN)
_STEP_PX, _ROW_PX, _LEFT_PX, _HEAD_PX = 36, 22, 56, 26


@dataclass(frozen=True, slots=True)
class Bar:
    """One sequence (counted from 1) in one seat (from 0), from the beginning of a step to the end of one."""

    sequence: int
    seat: int
    begin: int
    end: int


def static_bars() -> list[Bar]:
    """Batches of four: each begins when the one before has ended, and one that is not full at the flush."""
    bars: list[Bar] = []
    free = 0
    for first in range(0, len(LENGTHS), SEATS):
        batch = LENGTHS[first : first + SEATS]
        begin = free if len(batch) == SEATS else max(free, FLUSH_STEPS)
        bars += [Bar(first + seat + 1, seat, begin, begin + length) for seat, length in enumerate(batch)]
        free = begin + max(batch)
    return bars


def continuous_bars() -> list[Bar]:
    """Each sequence takes the seat that is free first."""
    free_at = [0] * SEATS
    bars: list[Bar] = []
    for number, length in enumerate(LENGTHS, start=1):
        seat = free_at.index(min(free_at))
        bars.append(Bar(number, seat, free_at[seat], free_at[seat] + length))
        free_at[seat] += length
    return bars


def steps(bars: Sequence[Bar]) -> int:
    """How many steps it takes until the last one has ended."""
    return max(bar.end for bar in bars)


def words(bars: Sequence[Bar]) -> str:
    """How long it takes, and how much of the seats' time is empty."""
    taken = sum(bar.end - bar.begin for bar in bars)
    return f"{steps(bars)} steps, seats empty {1 - taken / (SEATS * steps(bars)):.0%} of the time"


def picture() -> str:
    """Both strategies, one above the other, readable on white and on dark grey."""
    parts, top = [], 0
    for title, bars in (("static", static_bars()), ("continuous", continuous_bars())):
        parts += [_text(0, top + 16, f"{title}: {words(bars)}"), *_seats(top + _HEAD_PX)]
        parts += [_bar(bar, top + _HEAD_PX) for bar in bars]
        top += _HEAD_PX + SEATS * _ROW_PX + 12
    width = _LEFT_PX + _STEP_PX * max(steps(static_bars()), steps(continuous_bars()))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}">'
    return f"{head}{''.join(parts)}</svg>"


def alternative() -> str:
    """The picture in words."""
    found = {"static": static_bars(), "continuous": continuous_bars()}
    figures = "; ".join(f"{title}: {words(bars)}" for title, bars in found.items())
    return f"Seven sequences on four seats. {figures}."


def _seats(top: int) -> list[str]:
    return [_text(0, top + seat * _ROW_PX + 15, f"seat {seat + 1}") for seat in range(SEATS)]


def _bar(bar: Bar, top: int) -> str:
    x, y = _LEFT_PX + bar.begin * _STEP_PX, top + bar.seat * _ROW_PX
    width, colour = (bar.end - bar.begin) * _STEP_PX - 2, _COLOURS[bar.sequence - 1]
    shape = f'<rect x="{x}" y="{y}" width="{width}" height="{_ROW_PX - 3}" rx="3" fill="{colour}"/>'
    return shape + _text(x + 8, y + 14, f"S{bar.sequence}", "#ffffff")


def _text(x: int, y: int, words: str, colour: str = palette.GREY) -> str:
    return f'<text x="{x}" y="{y}" font-family="sans-serif" font-size="13" fill="{colour}">{escape(words)}</text>'
