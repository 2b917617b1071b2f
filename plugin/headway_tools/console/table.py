"""Tables as text: columns as wide as their widest cell, numbers to the right.

Numbers are printed exactly. A figure that was measured is rounded by its caller; a setting never is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headway_policies.preset import Setting, toml_text

_NUMBER = re.compile(r"-?\d[\d.e+-]*")


def table(head: Sequence[str], rows: Sequence[Sequence[object]], indent: str = "  ") -> str:
    """Lay out a table; columns of numbers are aligned to the right."""
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    right = [bool(cells) and all(_NUMBER.fullmatch(row[place]) for row in cells) for place in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        )
        for line in [list(head), *cells]
    ]
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def setting_text(value: Setting | None) -> str:
    """A setting as written in a preset file; a dash without a value."""
    return "-" if value is None else toml_text(value)


def milliseconds(seconds: float) -> str:
    """A number of seconds that was given, not measured, in milliseconds: every digit that was given."""
    return f"{seconds * 1000:.15g}"


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return repr(cell)
    if isinstance(cell, list):
        return ", ".join(map(str, cell)) or "none"
    return "-" if cell is None else str(cell)
