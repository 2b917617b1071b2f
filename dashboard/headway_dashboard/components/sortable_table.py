"""A table that is sorted by a click on the head of a column, and whose rows are links.

``st.table`` sorts nothing, and ``st.dataframe`` draws on a canvas, where a cell is no link to another page. This table
keeps its rows, their order and the keyboard's focus while its figures are replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import streamlit as st

from headway_dashboard.analysis.server.fleet.columns import Cell, Heading

_SCRIPT, _STYLE = (
    resources.files("headway_dashboard.components").joinpath(f"sortable_table.{kind}").read_text(encoding="utf-8")
    for kind in ("js", "css")
)
_table = st.components.v2.component(
    "headway_sortable_table",
    html='<div class="headway-rows" tabindex="0"><table><thead></thead><tbody></tbody><tfoot></tfoot></table></div>',
    css=_STYLE,
    js=_SCRIPT,
    isolate_styles=False,
)


def sortable_table(
    headings: Sequence[Heading],
    rows: Mapping[str, Sequence[Cell]],
    total: Sequence[Cell],
    *,
    name: str,
    parameter: str,
    key: str,
    path: str = "",
) -> None:
    """Draw the rows, each by its key, and the total under them; ``name`` is the accessible name of the table.

    The first cell of a row is a link to the page at ``path``, the first one if it is empty, with ``parameter`` set to
    the row's key; it keeps what else stands in the address. A click anywhere else on the row follows the link.
    """
    data = {
        "name": name,
        "parameter": parameter,
        "path": path,
        "headings": [
            {"title": heading.title, "help": heading.help, "numeric": heading.numeric} for heading in headings
        ],
        "rows": [{"key": row, "cells": _cells(cells)} for row, cells in rows.items()],
        "total": _cells(total),
    }
    _table(key=key, data=data)


def _cells(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    return [{"text": cell.text, "value": cell.value, "note": cell.note} for cell in cells]
