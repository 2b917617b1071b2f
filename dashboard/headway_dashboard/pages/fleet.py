"""The Fleet page: the servers beside each other, how evenly they are used, their merged quantiles, and their events.

Of a router the instances behind it, too.
"""

from __future__ import annotations

import time

import streamlit as st

from headway_dashboard.analysis.catalogue.fleet_panels import DEFINITION, FLEET_SECTION, LATENCY_SECTION, LOAD_SECTION
from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.changes.audit_rows import zone_of, zone_words
from headway_dashboard.analysis.server import fleet_words, newest_values, routed, scale_events
from headway_dashboard.analysis.server.fleet_columns import EXPRESSIONS, HEADINGS
from headway_dashboard.analysis.server.fleet_rows import as_they_were, fleet_rows
from headway_dashboard.analysis.server.instances import INSTANCE
from headway_dashboard.analysis.units import duration
from headway_dashboard.analysis.view import Span
from headway_dashboard.components import sortable_table
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.charts import download, draw, history_of
from headway_dashboard.pages.head import class_and_span, longest_range_s, read, recent, refresh_s
from headway_dashboard.settings import Settings
from headway_dashboard.sources import ChosenSource, Reading, Source, StatusSource

TITLE, PATH = "Fleet", "fleet"
#: Events are looked for at least so far back, in seconds.
EVENTS_S = 1800.0
_HOW = (
    "One server is watched. This page compares several: name each of them with `--url`, or all of them in "
    "`HEADWAY_URL` with commas between them."
)
_COMMAND = "headway dashboard --url http://10.0.0.5:8000 --url http://10.0.0.6:8000"


def show(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """Draw the page. It is of all servers, whichever the bar chooses."""
    whole = source.whole if isinstance(source, ChosenSource) else source
    if len(whole.read((), 0.0).instances) < 2:
        st.fragment(_routed, run_every=settings.refresh_s)(whole, Span(EVENTS_S))
        st.info(_HOW)
        st.code(_COMMAND, language="bash")
        return
    _, classes, span = class_and_span(whole)
    download(_limited(FLEET_SECTION, classes), whole, span, name=PATH)
    if isinstance(source, ChosenSource):
        st.caption(f"This page shows all servers, although {plain(source.name)} is chosen in the bar.")
    st.fragment(_live, run_every=refresh_s(settings, span))(whole, classes, span)


def routes(source: Source) -> bool:
    """Whether a router is watched, which has instances to show."""
    return bool(routed.instance_rows(recent(source, routed.EXPRESSIONS, Span(EVENTS_S))))


def _live(whole: Source, classes: tuple[str, ...], span: Span) -> None:
    newest = recent(whole, (*EXPRESSIONS, *fleet_words.EXPRESSIONS), span)
    _servers(newest, span)
    _routed(whole, span)
    load, latency = _limited(LOAD_SECTION, classes), _limited(LATENCY_SECTION, classes)
    history = history_of((*load, *latency), whole, span)
    st.markdown("#### Imbalance")
    for words in fleet_words.imbalance_words(newest):
        st.markdown(plain(words))
    st.caption(DEFINITION)
    draw(load, history, key="headway-fleet-load")
    st.markdown("#### Latency and capacity")
    if words := fleet_words.worst_words(newest):
        st.markdown(plain(words))
    draw(latency, history, key="headway-fleet-latency")
    events_s = min(max(span.range_s, EVENTS_S), longest_range_s(whole))
    _events(read(whole, scale_events.EXPRESSIONS, Span(events_s, span.end_s)))


def _servers(newest: Reading, span: Span) -> None:
    zone = zone_of(st.context.timezone_offset)
    found = fleet_rows(newest, time.time(), zone) if span.live else fleet_rows(as_they_were(newest), newest.end_s, zone)
    with st.container(border=True, gap="xsmall", key="headway-servers"):
        st.markdown(
            "**Servers**",
            help="A click on a row opens the Overview of that server, a click on the head of a column sorts by it.",
        )
        sortable_table(HEADINGS, found.rows, found.all, name="Servers", parameter=INSTANCE, key="headway-fleet-table")
        times = f"Times: {zone_words(zone)}."
        st.caption(plain(f"{found.rule} {times}" if found.rule else times))


def _routed(whole: Source, span: Span) -> None:
    """Draw the instances behind a router, where one is watched."""
    rows = routed.instance_rows(recent(whole, routed.EXPRESSIONS, span))
    if rows:
        with st.container(border=True, gap="xsmall", key="headway-routed"):
            st.markdown("**Instances behind the router**", help=routed.EXPLANATION)
            st.table([{name: plain(text) for name, text in row.items()} for row in rows], hide_index=True)


def _events(history: Reading) -> None:
    zone = zone_of(st.context.timezone_offset)
    rows = scale_events.event_rows(scale_events.scale_events(history), zone)
    with st.container(border=True, gap="xsmall", key="headway-fleet-events"):
        st.markdown(
            "**Servers that appeared, were gone or restarted**",
            help="The newest first. The same events are marked on every chart over time.",
        )
        if rows:
            shown = [{key: plain(value) for key, value in row.items()} for row in rows]
            st.table(shown, border="horizontal", hide_index=True)
        else:
            st.caption(f"There were none in the last {duration(history.range_s)} that are recorded.")


def _limited(shown: tuple[Panel, ...], classes: tuple[str, ...]) -> tuple[Panel, ...]:
    return tuple(newest_values.limited_to(panel, classes) for panel in shown)
