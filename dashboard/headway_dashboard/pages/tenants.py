"""The Tenants page: the use of each tenant, its share against the others, and its budgets; one at ``?tenant=``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import streamlit as st

from headway.api.schema import UsageReport
from headway_dashboard.analysis.catalogue.tenant_panels import TENANTS_SECTION
from headway_dashboard.analysis.changes.audit_rows import zone_of, zone_words
from headway_dashboard.analysis.server.instances import instance_name
from headway_dashboard.analysis.tenants import words
from headway_dashboard.analysis.tenants.budget_rows import HELP, budget_rows
from headway_dashboard.analysis.tenants.fairness import TenantUse, jain, tenant_uses
from headway_dashboard.analysis.tenants.several_servers import by_database, summed
from headway_dashboard.analysis.view import Span
from headway_dashboard.components import sortable_table, table
from headway_dashboard.components.banner import plain
from headway_dashboard.pages.charts import draw
from headway_dashboard.pages.head import view
from headway_dashboard.pages.page_reading import Page, PageReading
from headway_dashboard.settings import Settings
from headway_dashboard.shared import usage_for, watched
from headway_dashboard.sources import Source, StatusSource, TenantUsage, read_together
from headway_dashboard.sources.tenant_usage import NEEDED

_TILE_PX = 130
_NOT_YET = "no answer yet"
_APART = "Each server counts budgets for itself, without the use on other servers, unless they share a database."


def chosen_tenant() -> str | None:
    """The tenant that the address names; None for all, empty for the tenant without a name."""
    return next(iter(st.query_params.get_all(words.TENANT)), None)


def _found(settings: Settings, span: Span) -> dict[str, TenantUsage]:
    """The answers of all servers, by their names."""
    tenant, token = chosen_tenant(), (settings.token_id, settings.token)
    return read_together({instance_name(url): usage_for(url, span, tenant, *token) for url in settings.urls})


def _draw(reading: PageReading) -> None:
    settings, _, _ = watched()
    found = _found(settings, reading.view.span)
    for problem in dict.fromkeys(_problems(found)):
        st.info(plain(problem))
    told = {name: usage.of_all for name, usage in found.items() if usage.of_all is not None}
    if told:
        servers = by_database(told)
        chosen = [usage.of_chosen for name, usage in found.items() if name in servers and usage.of_chosen is not None]
        of_all = summed(told[name] for name in servers)
        parts = {", ".join(names): found[first] for first, names in servers.items()}
        _use(of_all, summed(chosen) if chosen else None, parts)
    draw(TENANTS_SECTION, reading, key="headway-tenant-charts")


def _problems(found: Mapping[str, TenantUsage]) -> Iterator[str]:
    """Why servers have no figures, with their names where there are several."""
    for name, usage in found.items():
        if len(found) > 1 and usage.of_all is None and usage.problem != NEEDED:
            yield f"{name}: {usage.problem or _NOT_YET}"
        elif usage.problem:
            yield usage.problem


def _use(report: UsageReport, of_chosen: UsageReport | None, servers: Mapping[str, TenantUsage]) -> None:
    """All tenants, or the chosen one; ``servers`` are the answers behind the sums."""
    uses, name = tenant_uses(report), chosen_tenant()
    if name is None or of_chosen is None:
        _tiles(words.tiles(uses, jain(uses)))
        _held_back(uses)
        _table(report, uses)
        _budgets(servers)
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="headway-tenant-chosen"):
        st.markdown(f"#### Tenant {plain(name or '(no name)')}", width="content")
        st.button("All tenants", key="tenants-all", on_click=_show_all)
    mine = next((use for use in uses if use.name == name), None)
    if mine is None:
        st.caption("The tenant has asked for nothing in this range.")
    else:
        _tiles(words.tiles_of_chosen(mine))
        _held_back(uses, name)
        with st.container(border=True, gap="xsmall", key="headway-tenant-parts"):
            st.markdown("**Its requests**", help="By class, key, model and outcome; the largest first.")
            table(words.rows_of_chosen(of_chosen))
    _budgets(servers)


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


def _budgets(servers: Mapping[str, TenantUsage]) -> None:
    """The budgets of each server, with the rates that it has itself."""
    zone, rows = zone_of(st.context.timezone_offset), list[dict[str, str]]()
    for name, usage in servers.items():
        asked = usage.of_chosen or usage.of_all
        if asked is not None and usage.of_all is not None:
            found = budget_rows(asked.budgets, usage.of_all, time.time(), zone)
            rows += [{"Server": name, **row} for row in found] if len(servers) > 1 else found
    with st.container(border=True, gap="xsmall", key="headway-tenant-budgets"):
        st.markdown("**Budgets**", help=f"{HELP} Times: {zone_words(zone)}.")
        table(rows, "No budget is in force: headway keys budget TENANT tokens_per_day=2000000 sets one.")
        if len(servers) > 1 and rows:
            st.caption(_APART)


def _file(settings: Settings, source: Source, server_status: StatusSource) -> None:
    """A button that gives all tenants as CSV; they are read when it is pressed."""
    span = view(source).span

    def written() -> str:
        told = {name: one.of_all for name, one in _found(settings, span).items() if one.of_all is not None}
        return words.usage_csv(tenant_uses(summed(told[name] for name in by_database(told))) if told else ())

    if settings.token is not None:
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
