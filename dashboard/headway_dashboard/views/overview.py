"""Overview: is all well, and if not, what limits the server?"""

from __future__ import annotations

import time
from itertools import chain

import streamlit as st

from headway_dashboard import panels, watch
from headway_dashboard.components import banner, live_plot, tile
from headway_dashboard.expressions import Expression
from headway_dashboard.figures import figure
from headway_dashboard.model import change_marks
from headway_dashboard.panels import Panel, for_classes
from headway_dashboard.settings import Settings
from headway_dashboard.sources import Reading, Source

RECENT_S = 300.0
RANGES_S = {"5 min": 300.0, "15 min": 900.0, "30 min": 1800.0}
_COLUMN_PX = 420
_TILE_PX = 150

_ALWAYS: tuple[Expression, ...] = (
    *panels.FACTS,
    *panels.ENGINE,
    *panels.IDENTITY,
    *panels.CLASS_TABLE,
    panels.FAULTS_BY_OUTCOME,
    panels.REFUSED_BY_REASON,
)


def show(settings: Settings, source: Source) -> None:
    """Draw the page. The controls stand outside the part that refreshes itself."""
    known = watch.classes_of(source.read((panels.QUEUED_BY_CLASS,), RECENT_S))
    with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"):
        classes = tuple(
            st.pills(
                "Classes",
                known,
                selection_mode="multi",
                key="classes",
                help="Tiles and charts that know classes show these only. None chosen: all of them.",
            )
            if known
            else ()
        )
        range_name = st.segmented_control("Range", list(RANGES_S), default="5 min", required=True, key="range")
    live = st.fragment(_live, run_every=settings.refresh_s)
    live(source, known, classes, RANGES_S[range_name or "5 min"])


def _live(source: Source, known: tuple[str, ...], classes: tuple[str, ...], range_s: float) -> None:
    tiles = [(one, for_classes(one.expression, classes)) for one in panels.TILES]
    recent = source.read((*_ALWAYS, *(expression for _, expression in tiles)), RECENT_S)
    if (found := watch.classes_of(recent)) and found != known:
        st.rerun()
    state = watch.condition_of(recent, time.time())
    name, revision = watch.running_preset(recent)
    with st.container(gap="xsmall"):
        preset = f"{name} · revision {revision}" if name else ""
        banner(state, preset=preset, source=recent.source, note=recent.note)
        st.markdown(f"#### {watch.sentence(recent, state.state)}")
    with st.grid(4, min_column_width=_TILE_PX, gap="xsmall", key="headway-tiles"):
        for one, expression in tiles:
            chosen = one
            if one.id == "memory":
                chosen = watch.memory_tile(recent)
                expression = chosen.expression
            text = watch.tile_text(chosen, recent, expression, state)
            course = recent[expression].line()
            tile(text.label, text.value, explanation=text.explanation, course=course, note=text.note)
    _charts(source, recent, classes, range_s)
    _class_table(recent, known)


def _charts(source: Source, recent: Reading, classes: tuple[str, ...], range_s: float) -> None:
    six: tuple[Panel, ...] = (
        panels.BATCH_PANEL,
        panels.QUEUE_PANEL,
        panels.TTFT_PANEL,
        panels.ERROR_PANEL,
        panels.KV_PANEL,
        watch.memory_panel(recent),
    )
    six = tuple(watch.limited_to(panel, classes) for panel in six)
    wanted = {panels.PRESET, *chain.from_iterable(panel.expressions for panel in six)}
    history = source.read(tuple(wanted), range_s)
    marks = change_marks(history[panels.PRESET])
    with st.grid(2, min_column_width=_COLUMN_PX, gap="small", key="headway-charts"):
        for panel in six:
            with st.container(border=True, gap="xsmall"):
                st.markdown(f"**{panel.title}**", help=_help(panel))
                live_plot(figure(panel, history, marks), key=f"plot-{panel.id}")
                st.caption(panel.caption)


def _help(panel: Panel) -> str:
    queries = "\n".join(expression.promql("1m") for expression in panel.expressions)
    return f"{panel.help}\n\nThe same in PromQL:\n```\n{queries}\n```"


def _class_table(recent: Reading, classes: tuple[str, ...]) -> None:
    if not classes:
        return
    with st.container(border=True, gap="xsmall"):
        st.markdown("**Classes**", help="The newest numbers of each priority class; rates over the last 30 s.")
        st.table(watch.class_rows(recent, classes), border="horizontal", hide_index=True)
