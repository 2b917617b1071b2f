"""The table of the classes, whose rows choose the class that the page shows; cards on a narrow screen.

``st.table`` has no rows to press, and ``st.dataframe`` draws on a canvas, which no narrow screen can lay out anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

import streamlit as st

from headway_dashboard.analysis.server.class_states import Cell

_SCRIPT, _STYLE = (
    resources.files("headway_dashboard.components").joinpath(f"class_table.{kind}").read_text(encoding="utf-8")
    for kind in ("js", "css")
)
_table = st.components.v2.component(
    "headway_class_table",
    html='<div class="headway-class-frame"><table class="headway-class-rows" aria-label="Classes">'
    "<thead><tr></tr></thead><tbody></tbody></table></div>",
    css=_STYLE,
    js=_SCRIPT,
    isolate_styles=False,
)


def class_table(
    rows: Sequence[Mapping[str, Cell]], chosen: Sequence[str] = (), *, parameter: str, key: str, pressable: bool = True
) -> list[str] | None:
    """Draw a row for each class, whose name is its first cell; returns the classes that a press has just chosen.

    That is the pressed one alone, or none, which shows all of them. ``parameter`` is where they stand in the address.
    """
    data = {
        "titles": list(rows[0]) if rows else [],
        "rows": [
            {
                "cells": [{"text": cell.text, "tone": cell.tone} for cell in row.values()],
                "chosen": next(iter(row.values())).text in chosen,
            }
            for row in rows
        ],
        "pressable": pressable,
        "parameter": parameter,
    }
    pressed = _table(key=key, data=data, on_classes_change=_ignore).classes
    return [str(name) for name in pressed] if isinstance(pressed, list) else None


def _ignore() -> None:
    """Do nothing: the component's result has the pressed rows."""
