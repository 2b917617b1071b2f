"""How do rows become text? Columns as wide as their widest cell, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[object]], indent: str = "  ") -> str:
    """Lay out a table; a column whose cells are all numbers is aligned to the right."""
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    right = [bool(rows) and all(isinstance(row[place], int | float) for row in rows) for place in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        )
        for line in [list(head), *cells]
    ]
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def duration(seconds: float) -> str:
    """A duration for people: 0.4 s, 12 s, 3 min 5 s, 2 h 4 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.1f}"
    if isinstance(cell, list):
        return ", ".join(map(str, cell)) or "none"
    return "-" if cell is None else str(cell)
