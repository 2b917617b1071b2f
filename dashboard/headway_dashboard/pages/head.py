"""The choices that all pages share: what the bar chooses, and the time that is shown.

The choices stand in the address of the page, so that a page change, a reload and a link keep them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.server import newest_values
from headway_dashboard.analysis.view import CLASSES, COMPARE, RANGE, WALL, WALL_ON, View, view_of
from headway_dashboard.analysis.window import FROM, TO, Window, window_of
from headway_dashboard.pages.page_reading import RECENT_S
from headway_dashboard.sources import Source, read

_KNOWN = "known_classes"
_ASKED_RANGES = "asked_ranges"
_WINDOW = "window"
_TURNS = "window_turns"
_PRESSED = "pressed_classes"


def view(source: Source) -> View:
    """The choice in the bar, with defaults for values that the bar does not offer."""
    now = read(source, (panels.QUEUED_BY_CLASS,), RECENT_S)
    if found := newest_values.classes_of(now):
        st.session_state[_KNOWN] = found
    known: tuple[str, ...] = st.session_state.get(_KNOWN, ())  # while it reports none, those that it last did
    return replace(view_of(_chosen(), known, source.longest_range_s), several=len(now.instances) > 1)


def on_a_wall() -> bool:
    """Whether the page is for a screen on a wall."""
    return st.query_params.get(WALL) == WALL_ON


# ---------------------------------------------------------------------- the fixed time


def window() -> Window | None:
    """The fixed time: as it was chosen in this visit, else as the address has it; None while the pages are live."""
    if _WINDOW not in st.session_state:
        st.session_state[_WINDOW] = window_of(st.query_params.get_all(FROM), st.query_params.get_all(TO))
    chosen: Window | None = st.session_state[_WINDOW]
    return chosen


def show_window(chosen: Window | None) -> None:
    """Show a fixed time on all pages, or go back to live."""
    st.session_state[_WINDOW] = chosen
    st.session_state[_TURNS] = turns() + 1


def turns() -> int:
    """The number of times that this visit has chosen a fixed time or gone back to live."""
    counted: int = st.session_state.get(_TURNS, 0)
    return counted


def choose_classes(names: Sequence[str]) -> None:
    """Limit the pages to these classes from the next drawing of the bar on; no class means all classes."""
    st.session_state[_PRESSED] = list(names)


def take_pressed_class() -> None:
    """Give the control of the classes what was pressed in a table, which only the script that draws it may do."""
    if _PRESSED in st.session_state:
        st.session_state[CLASSES] = st.session_state.pop(_PRESSED)


def drop_empty_choices() -> None:
    """Open the default view in place of an empty text, which would choose nothing: ``?range=``."""
    empty = [name for name in (RANGE, COMPARE) if name not in st.session_state and st.query_params.get(name) == ""]
    if empty:
        for name in empty:
            del st.query_params[name]
        st.rerun()


def keep_window_in_address() -> None:
    """Write the fixed time into the address: a page change clears what belongs to no control."""
    chosen = window()
    texts = {} if chosen is None else chosen.texts
    if texts and any(st.query_params.get(name) != text for name, text in texts.items()):
        st.query_params.update(texts)
    for name in (FROM, TO):
        if name not in texts and name in st.query_params:
            del st.query_params[name]


def _chosen() -> dict[str, Sequence[str]]:
    chosen: dict[str, Sequence[str]] = {name: _texts(name) for name in (RANGE, CLASSES, COMPARE)}
    fixed = window()
    return chosen | ({} if fixed is None else {name: [text] for name, text in fixed.texts.items()})


def asked_ranges() -> Sequence[str]:
    """The ranges in the address with which this visit began; they stay among the choices while it lasts."""
    found: Sequence[str] = st.session_state.setdefault(_ASKED_RANGES, tuple(st.query_params.get_all(RANGE)))
    return found


def _texts(name: str) -> Sequence[str]:
    """A choice as the control has it, else as the address has it."""
    chosen = st.session_state.get(name)
    if chosen is None:
        return st.query_params.get_all(name)
    return [chosen] if isinstance(chosen, str) else list(chosen)
