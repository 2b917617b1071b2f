"""The Overview page: the diagnosis, key figures, the class table, charts, and the last changes."""

from __future__ import annotations

import time
from datetime import UTC, timezone, tzinfo
from urllib.parse import urlencode

import streamlit as st

from headway_dashboard import components
from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.panels import for_classes
from headway_dashboard.analysis.catalogue.slo_panels import LONG_S
from headway_dashboard.analysis.changes.audit_rows import zone_of
from headway_dashboard.analysis.changes.last_changes import EXPRESSIONS, change_rows
from headway_dashboard.analysis.diagnosis import alerts
from headway_dashboard.analysis.diagnosis.incident import incident_text
from headway_dashboard.analysis.diagnosis.since import SEVERITY, trouble_since
from headway_dashboard.analysis.server import newest_values, tile_notes
from headway_dashboard.analysis.server.class_states import EXPRESSIONS as CLASS_STATES
from headway_dashboard.analysis.server.class_states import class_states
from headway_dashboard.analysis.server.identity import identity_of
from headway_dashboard.analysis.server.instances import INSTANCE
from headway_dashboard.analysis.server.objectives import objective_lines
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.server.stop_words import operator_limit_words
from headway_dashboard.analysis.units import duration
from headway_dashboard.analysis.view import CLASSES
from headway_dashboard.analysis.window import before_now
from headway_dashboard.components import headline, table, tile
from headway_dashboard.components.banner import plain
from headway_dashboard.pages import charts, head
from headway_dashboard.pages.page_reading import Page, PageReading
from headway_dashboard.pages.try_remedy import try_button
from headway_dashboard.shared import chosen_instance, watched
from headway_dashboard.sources import SourceReading
from headway_policies.diagnosis import Severity

_TILE_PX = 130


def draw(reading: PageReading) -> None:
    """Draw the page."""
    live = reading.view.span.live
    if live:  # a diagnosis is of now: it rests on what the server says of itself
        headline(
            reading.headline, since(reading), lambda remedy: try_button(remedy, reading), lambda: _incident(reading)
        )
    tiles(reading)
    if live and (words := operator_limit_words(reading.status)):
        st.caption(plain(words))
    class_table(reading)
    charts.draw(PAGE.panels, reading, key="headway-charts")
    _last_changes(reading.events, reading.status)


def since(reading: PageReading, zone: tzinfo | None = None) -> str:
    """The beginning of the trouble, on the clock of the visitor where no zone is given."""
    severity = reading.headline.severity
    if severity is None or severity < Severity.DEGRADED:
        return ""
    return trouble_since(reading.events[SEVERITY], zone or _zone())


def _zone() -> timezone:
    """The zone of the visitor."""
    return zone_of(st.context.timezone_offset)


def _incident(reading: PageReading) -> None:
    """Draw the text of an incident for others, in UTC; its link shows the time up to now, whenever opened."""
    newest, status, now_s = reading.newest, reading.status, time.time()
    with st.popover("Copy incident", type="tertiary"):
        chosen = [(CLASSES, name) for name in reading.view.classes]
        if name := chosen_instance():
            chosen.append((INSTANCE, name))
        address = [*before_now(now_s, reading.view.range_s).texts.items(), *chosen]
        text = incident_text(
            reading.headline,
            since(reading, UTC),
            identity_of(watched()[0].address, newest, status, now_s).words,
            class_states(newest, status, reading.view.known, current=reading.state.current),
            alerts.alerts_of(newest, reading.state, reading.history, status.silences),
            change_rows(reading.events, status),
            f"{st.context.url}?{urlencode(address)}" if st.context.url else "",
            now_s,
        )
        st.code(text, language=None, wrap_lines=True)


def tiles(reading: PageReading, *, columns: int = 8, courses: bool = True) -> None:
    """Draw the key figures, with their course over the last minutes."""
    newest, state = reading.newest, reading.state
    status = reading.status if reading.view.span.live else Status()  # which is of now
    with st.grid(columns, min_column_width=_TILE_PX, gap="xsmall", key="headway-tiles"):
        for figure in (*panels.TILES[:-1], newest_values.memory_tile(newest)):
            expression = for_classes(figure.expression, reading.view.classes)
            text = newest_values.tile_text(figure, newest, expression, state)
            text = tile_notes.noted(text, figure, newest, status, state, reading.view)
            tile(text, newest[expression].line() if courses else ())


def class_table(reading: PageReading, *, pressable: bool = True) -> None:
    """Draw the state of each class against its objectives; a row that is pressed chooses its class for the page."""
    classes, status = reading.view.known, reading.status if reading.view.span.live else Status()
    if not classes:
        return
    lines = objective_lines(status.objectives, classes)
    with st.container(border=True, gap="xxsmall", key="headway-classes"):
        rows = class_states(reading.newest, status, classes, current=reading.state.current)
        chosen = components.class_table(
            rows, reading.view.classes, parameter=CLASSES, key="headway-class-table", pressable=pressable
        )
        if chosen is not None:
            head.choose_classes(chosen)
            st.rerun()
        if not reading.state.current:
            st.caption("Last known values.")
        if reading.longest_s < LONG_S:
            st.caption(f"Budget left covers {duration(reading.longest_s)} at most: this source keeps no more.")
        for line in lines[1:]:  # what the engine misses even for a request alone
            st.caption(plain(line))
        if lines:
            st.markdown(":small[Objectives]", help=plain(lines[0]))


def _last_changes(history: SourceReading, status: Status) -> None:
    with st.container(border=True, gap="xsmall", key="headway-changes"):
        st.markdown(
            "**Last changes**",
            help="Commands of the audit log with author and reason, and changes of the engine's state, the newest "
            "first. Without a token the log is hidden, and preset switches come from the metrics.",
        )
        table(change_rows(history, status, _zone()), "There were none in the time that is recorded.")


PAGE = Page(
    "Overview",
    "overview",
    draw,
    figures=(*panels.IDENTITY, *tile_notes.EXPRESSIONS, *CLASS_STATES),
    of_classes=[*(tile.expression for tile in panels.TILES), *tile_notes.OF_CLASSES],
    events=(*EXPRESSIONS, SEVERITY),
)
