"""The Tenants page: who uses what, who is held back by whom, and how long budgets last; one tenant at ``?tenant=``."""

from __future__ import annotations

import time
from collections.abc import Mapping

import streamlit as st

from headway.api.schema import UsageReport
from headway_dashboard.analysis.catalogue.tenant_panels import TENANTS_SECTION
from headway_dashboard.analysis.changes.audit_rows import zone_of, zone_words
from headway_dashboard.analysis.tenants import words
from headway_dashboard.analysis.tenants.budget_rows import HELP, budget_rows
from headway_dashboard.analysis.tenants.fairness import TenantUse, jain, tenant_uses
from headway_dashboard.components import sortable_table, table
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.charts import draw
from headway_dashboard.pages.head import view
from headway_dashboard.pages.page_reading import Page, PageReading
from headway_dashboard.settings import Settings
from headway_dashboard.shared import usage_for, watched
from headway_dashboard.sources import Source, StatusSource, TenantUsage

_TILE_PX = 130
_CHOOSE = "Each server has its own accounting: choose one of them in the bar."


def chosen_tenant() -> str | None:
    """The tenant that the address names; None for all. One without a name is empty."""
    return next(iter(st.query_params.get_all(words.TENANT)), None)


def _draw(reading: PageReading) -> None:
    settings, _, _ = watched()
    if settings.others:
        st.info(_CHOOSE)
    else:
        usage = usage_for(settings.url, reading.view.span, chosen_tenant(), settings.token).read()
        if usage.of_all is None:
            if usage.problem:
                st.info(plain(usage.problem))
        else:
            _use(usage.of_all, usage)
    draw(TENANTS_SECTION, reading, key="headway-tenant-charts")


def _use(report: UsageReport, usage: TenantUsage) -> None:
    uses, name = tenant_uses(report), chosen_tenant()
    if name is None or usage.of_chosen is None:
        _tiles(words.tiles(uses, jain(uses)))
        _held_back(uses)
        _table(report, uses)
        _budgets(report, report)
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="headway-tenant-chosen"):
        st.markdown(f"#### Tenant {plain(name or '(no name)')}", width="content")
        st.button("All tenants", key="tenants-all", on_click=_show_all)
    mine = next((use for use in uses if use.name == name), None)
    if mine is None:
        st.caption("It has asked for nothing in this range.")
    else:
        _tiles(words.tiles_of_chosen(mine))
        _held_back(uses, name)
        with st.container(border=True, gap="xsmall", key="headway-tenant-parts"):
            st.markdown("**Its requests**", help="By class, key, model and how they ended; the largest first.")
            table(words.rows_of_chosen(usage.of_chosen))
    _budgets(usage.of_chosen, report)


def _show_all() -> None:
    st.query_params.pop(words.TENANT, None)


def _tiles(figures: Mapping[str, tuple[str, str]]) -> None:
    with st.grid(min(len(figures), 8), min_column_width=_TILE_PX, gap="xsmall", key="headway-tenant-tiles"):
        for label, (text, explained) in figures.items():
            st.metric(label, text, border=True, help=explained)


def _held_back(uses: list[TenantUse], name: str | None = None) -> None:
    with st.container(border=True, gap="xxsmall", key="headway-tenants-held-back"):
        st.markdown("**Held back by others**", help=words.FAIR_HELP)
        for sentence in words.hurt_words(uses, name):
            st.markdown(plain(sentence))


def _table(report: UsageReport, uses: list[TenantUse]) -> None:
    with st.container(border=True, gap="xsmall", key="headway-tenants"):
        st.markdown("**Tenants**", help="A click on a row opens that tenant, a click on the head of a column sorts.")
        rows = {use.name: words.cells(use) for use in uses[: words.MOST_ROWS]}
        total = words.total_cells(report)
        address = {"parameter": words.TENANT, "path": PAGE.path}
        sortable_table(words.HEADINGS, rows, total, name="Tenants", key="headway-tenants-table", **address)
        if len(uses) > words.MOST_ROWS:
            st.caption(f"The {words.MOST_ROWS} with the most tokens, of {len(uses)}: the others are in the CSV file.")


def _budgets(asked: UsageReport, report: UsageReport) -> None:
    zone = zone_of(st.context.timezone_offset)
    with st.container(border=True, gap="xsmall", key="headway-tenant-budgets"):
        st.markdown("**Budgets**", help=f"{HELP} Times: {zone_words(zone)}.")
        rows = budget_rows(asked.budgets, report, time.time(), zone)
        table(rows, "No budget is in force: headway keys budget TENANT tokens_per_day=2000000 sets one.")


def _file(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """A button that gives all tenants as CSV; they are read when it is pressed."""
    span = view(source).span

    def written() -> str:
        found = usage_for(settings.url, span, chosen_tenant(), settings.token).read().of_all
        return words.usage_csv(tenant_uses(found) if found is not None else ())

    if settings.token is not None and not settings.others:
        st.download_button(
            "CSV of tenants",
            written,
            file_name="headway-tenants.csv",
            mime="text/csv",
            key="csv-tenants-table",
            on_click="ignore",
            help="All tenants in the range, in base units.",
        )


PAGE = Page("Tenants", "tenants", _draw, csv="tenants-over-time", foot=_file)
