"""A card for each preset: what it is, what it would do, and the button that compares it."""

from __future__ import annotations

import streamlit as st

from headway.api import PresetEntry, PresetList
from headway.api.schema import Forecast
from headway_dashboard.analysis.changes.forecast_words import card_line
from headway_dashboard.analysis.changes.preset_changes import by_urgency, card_words
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.control.forecast_view import NOT_CONFIRMED

CHOSEN = "chosen"
RESULT = "result"
_CARD_PX = 240


def cards(
    presets: PresetList, ceiling: int | None, forecast: Forecast | None, *, doubted: bool = False
) -> PresetEntry | None:
    """Draw the cards; returns the preset that the visitor looks at. ``doubted``: the forecast of the preset in force is
    not what is measured.
    """
    names = [preset.name for preset in presets.presets]
    if st.session_state.get(CHOSEN) not in names:
        st.session_state[CHOSEN] = None
    with st.grid(min(len(names), 4) or 1, min_column_width=_CARD_PX, gap="small", key="headway-presets"):
        for preset in presets.presets:
            _card(preset, ceiling, forecast, running=preset.name == presets.current.name, doubted=doubted)
    return next((preset for preset in presets.presets if preset.name == st.session_state[CHOSEN]), None)


def _card(one: PresetEntry, ceiling: int | None, forecast: Forecast | None, *, running: bool, doubted: bool) -> None:
    with st.container(border=True, height="stretch", gap="xsmall", key=f"card-{one.name}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
            st.markdown(f"**{plain(one.name)}**", width="content")
            if running:
                st.badge("in force", color="green")
            if one.source not in ("bundled", ""):
                st.badge("own file", color="gray", help=plain(one.source))
        st.caption(plain(one.description))
        st.markdown(plain(card_words(one.settings, ceiling)))
        _predicted(one, forecast, running=running, doubted=doubted)
        st.space("stretch")  # the buttons of a row stand in one line
        chosen = st.session_state[CHOSEN] == one.name
        st.button(
            "Comparing" if chosen else "Compare",
            key=f"compare-{one.name}",
            on_click=_choose,
            args=(one.name,),
            disabled=running or chosen,
            width="stretch",
        )


def _predicted(one: PresetEntry, forecast: Forecast | None, *, running: bool, doubted: bool) -> None:
    found = next((of for of in forecast.presets if of.name == one.name), None) if forecast is not None else None
    if found is None:
        return
    words = plain(card_line(found, by_urgency(one.settings)))
    if not doubted:
        st.markdown(f"Forecast: {words}")
    else:
        st.caption(f"Forecast, {'not what is measured' if running else NOT_CONFIRMED}: {words}")


def _choose(name: str) -> None:
    st.session_state[CHOSEN] = name
    st.session_state.pop(RESULT, None)
