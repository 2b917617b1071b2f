"""The frame of every page: the bar of controls, and under it the server, its condition, alerts and notices.

The bar belongs to the script and not to a page, so that its controls stay when the page changes; it stands outside the
live part, so that a refresh does not touch it. The live part is read once, for the frame and the page.
"""

from __future__ import annotations

import time
from dataclasses import replace

import streamlit as st

from headway_dashboard.analysis import window
from headway_dashboard.analysis.changes.audit_rows import zone_of, zone_words
from headway_dashboard.analysis.diagnosis import alerts
from headway_dashboard.analysis.diagnosis import headline as headlines
from headway_dashboard.analysis.server import descriptions, newest_values
from headway_dashboard.analysis.server import identity as identities
from headway_dashboard.analysis.server.instances import ALL_INSTANCES, INSTANCE, away_details
from headway_dashboard.analysis.view import (
    CLASSES,
    COMPARE,
    COMPARISONS,
    DEFAULT_COMPARISON,
    DEFAULT_RANGE,
    RANGE,
    RANGES_S,
    View,
    range_s_of,
    ranges,
)
from headway_dashboard.components import alerts as alert_line
from headway_dashboard.components import banner, notice
from headway_dashboard.pages import head
from headway_dashboard.pages.charts import download
from headway_dashboard.pages.page_reading import RECENT_S, Page, PageReading, read_page
from headway_dashboard.settings import Settings
from headway_dashboard.shared import instance_names
from headway_dashboard.sources import ChosenSource, Source, StatusSource

_REFRESH, _LIVE, _PAUSED = "refresh", "Live", "Paused"


def bar(source: Source) -> None:
    """Draw the bar, but on a wall, where nothing can be pressed."""
    if head.on_a_wall():
        return
    head.drop_empty_choices()
    head.take_pressed_class()
    head.keep_window_in_address()
    longest_s = source.longest_range_s
    _bar(head.view(source).known, longest_s, instance_names(source))
    _fixed_time(longest_s)


def show(page: Page, settings: Settings, source: Source, server_status: StatusSource) -> None:
    """Draw the state of the server and under it a page; both from one reading, unless they are of different times."""
    view = head.view(source)
    shown = source.whole if page.of_all and isinstance(source, ChosenSource) else source
    together = view.span.live and shown is source
    if not together:
        now = replace(view, range_s=RECENT_S, end_s=None, before_change=False)
        st.fragment(_live, run_every=settings.refresh_s)(Page("", ""), settings, source, server_status, now)
    run_every = settings.refresh_s if view.span.live else None
    st.fragment(_live, run_every=run_every)(page, settings if together else None, shown, server_status, view)
    if page.csv:
        download(page, lambda: read_page(page, shown, server_status, view))
    if page.foot:
        page.foot(settings, source, server_status)


def _bar(known: tuple[str, ...], longest_s: float, servers: tuple[str, ...]) -> None:
    """The controls in one row. Streamlit keeps them in the address, without those that are at their default."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="headway-bar"):
        st.segmented_control(
            "Range",
            ranges(longest_s, head.asked_ranges()),
            default=DEFAULT_RANGE,
            required=True,
            key=RANGE,
            bind="query-params",
            on_change=head.show_window,
            args=(None,),
        )
        _live_or_paused()
        if servers:
            st.selectbox(
                "Server",
                (ALL_INSTANCES, *servers),
                key=INSTANCE,
                bind="query-params",
                width=290,
                help="all: the sum of counts and rates; quantiles of the merged histograms.",
            )
        if known:
            st.pills(
                "Classes",
                known,
                selection_mode="multi",
                key=CLASSES,
                bind="query-params",
                help="Limits tiles and charts to these classes, if their metric has classes. Without a choice: all "
                "classes.",
            )
        st.segmented_control(
            "Compare",
            COMPARISONS,
            default=DEFAULT_COMPARISON,
            required=True,
            key=COMPARE,
            bind="query-params",
            help="before: charts that can compare show the time before the last preset change as well.",
        )


def _live_or_paused() -> None:
    """The control of the time; a new one at each turn.

    A refresh that is under way reports the controls as they were before the turn. Of a control that stayed, that would
    read as the visitor's choice to turn back.
    """
    turn = head.turns()
    st.segmented_control(
        "Refresh",
        (_LIVE, _PAUSED),
        default=_LIVE if head.window() is None else _PAUSED,
        required=True,
        key=f"{_REFRESH}-{turn}",
        on_change=_refreshed,
        args=(turn,),
        help="Paused: all pages show one fixed time, given in the address. Drag on a chart to choose another time.",
    )


def _refreshed(turn: int) -> None:
    """Pause at the range that is shown, or go back to live."""
    if turn != head.turns():
        return
    if st.session_state.get(f"{_REFRESH}-{turn}") == _PAUSED:
        range_s = range_s_of(st.session_state.get(RANGE) or DEFAULT_RANGE) or RANGES_S[DEFAULT_RANGE]
        head.show_window(window.before_now(time.time(), range_s))
    else:
        head.show_window(None)


def _fixed_time(longest_s: float) -> None:
    """The time that all pages show while they are paused, and the way back."""
    chosen = head.window()
    if chosen is None:
        return
    zone = zone_of(st.context.timezone_offset)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="headway-paused"):
        st.badge("Paused", color="orange")
        st.markdown(f"Charts, tiles and tables show **{chosen.words(zone)}** ({zone_words(zone)}).", width="content")
        st.button("Back to live", type="primary", key="back_to_live", on_click=head.show_window, args=(None,))
    if missing := window.missing_words(chosen, time.time(), longest_s):
        st.warning(missing)


def _live(page: Page, settings: Settings | None, source: Source, server_status: StatusSource, view: View) -> None:
    """Draw one refresh; without settings, of the page alone."""
    reading = read_page(page, source, server_status, view)
    if settings is not None:
        _head(settings, reading)
    page.draw(reading)


def _head(settings: Settings, reading: PageReading) -> None:
    recent, status, state, now_s = reading.newest, reading.status, reading.state, time.time()
    several = len(recent.instances) > 1
    if (newest_values.classes_of(recent) or reading.view.known, several) != (reading.view.known, reading.view.several):
        st.rerun()
    severity = reading.headline.severity
    st.set_page_config(page_title=headlines.tab_title(severity))
    notices = descriptions.notices_of(recent, status, state)
    with st.container(gap="xsmall", key="headway-head"):
        banner(
            state,
            identities.identity_of(settings.address, recent, status, now_s),
            severity=severity,
            source=recent.source,
            note=" ".join(text for text in (recent.note, away_details(recent, now_s)) if text),
            rung=rung if (rung := descriptions.rung(recent)) != descriptions.NORMAL else "",
            has_notice=bool(notices),
        )
        zone = zone_of(st.context.timezone_offset)
        active = alerts.alerts_of(recent, state, reading.history, status.silences)
        alert_line(active, zone, settings.runbooks_url)
        for found in notices:
            notice(found)
