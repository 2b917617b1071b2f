"""The Fleet page: the servers beside each other, how evenly they are used, their merged quantiles, and their events.

Of a router the instances behind it, too.
"""

from __future__ import annotations

import time

import streamlit as st

from headway_dashboard.analysis.catalogue.fleet_panels import DEFINITION, LATENCY_SECTION, LOAD_SECTION
from headway_dashboard.analysis.changes.audit_rows import zone_of, zone_words
from headway_dashboard.analysis.server import routed
from headway_dashboard.analysis.server.fleet import scale_events, words
from headway_dashboard.analysis.server.fleet.columns import EXPRESSIONS, HEADINGS
from headway_dashboard.analysis.server.fleet.rows import as_they_were, fleet_rows
from headway_dashboard.analysis.server.instances import INSTANCE
from headway_dashboard.analysis.units import duration
from headway_dashboard.analysis.view import Span
from headway_dashboard.components import sortable_table, table
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.charts import draw
from headway_dashboard.pages.page_reading import RECENT_S, Page, PageReading
from headway_dashboard.shared import chosen_instance
from headway_dashboard.sources import Source, SourceReading, read

_HOW = (
    "One server is watched. This page compares several: name each of them with `--url`, or all of them in "
    "`HEADWAY_URL` with commas between them."
)
_COMMAND = "headway dashboard --url http://10.0.0.5:8000 --url http://10.0.0.6:8000"


def routes(source: Source) -> bool:
    """Whether the server is a router with instances to show."""
    return bool(routed.instance_rows(read(source, routed.EXPRESSIONS, RECENT_S)))


def _draw(reading: PageReading) -> None:
    newest = reading.newest
    if len(newest.instances) < 2:
        _routed(newest)
        st.info(_HOW)
        st.code(_COMMAND, language="bash")
        return
    if name := chosen_instance():
        st.caption(f"This page shows all servers, although {plain(name)} is chosen in the bar.")
    _servers(newest, reading.view.span)
    _routed(newest)
    st.markdown("#### Imbalance")
    for sentence in words.imbalance_words(newest):
        st.markdown(plain(sentence))
    st.caption(DEFINITION)
    draw(LOAD_SECTION, reading, key="headway-fleet-load")
    st.markdown("#### Latency and capacity")
    if worst := words.worst_words(newest):
        st.markdown(plain(worst))
    draw(LATENCY_SECTION, reading, key="headway-fleet-latency")
    _events(reading.events)


def _servers(newest: SourceReading, span: Span) -> None:
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


def _routed(newest: SourceReading) -> None:
    """Draw the instances behind a router, where one is watched."""
    rows = routed.instance_rows(newest)
    if rows:
        with st.container(border=True, gap="xsmall", key="headway-routed"):
            st.markdown("**Instances behind the router**", help=routed.EXPLANATION)
            table(rows)


def _events(history: SourceReading) -> None:
    zone = zone_of(st.context.timezone_offset)
    rows = scale_events.event_rows(scale_events.scale_events(history), zone)
    with st.container(border=True, gap="xsmall", key="headway-fleet-events"):
        st.markdown(
            "**Servers that appeared, were gone or restarted**",
            help="The newest first. The same events are marked on every chart over time.",
        )
        table(rows, f"There were none in the last {duration(history.range_s)} that are recorded.")


PAGE = Page(
    "Fleet",
    "fleet",
    _draw,
    figures=(*EXPRESSIONS, *words.EXPRESSIONS, *routed.EXPRESSIONS),
    events=scale_events.EXPRESSIONS,
    csv="fleet",
    of_all=True,
)
