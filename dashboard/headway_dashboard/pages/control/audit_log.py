"""The audit log: who has changed what, and what was refused, with filters, a search and a download."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headway.api.schema import AuditEntry
from headway_dashboard.analysis.changes.audit_rows import SHOWN, audit_csv, audit_rows, chosen, zone_of


def audit_log(entries: Sequence[AuditEntry]) -> None:
    """Draw the log on the clock of the visitor's browser, which the charts use too."""
    st.markdown("#### Audit log")
    if not entries:
        st.caption("Nothing has been changed since the server started.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        kind = st.segmented_control("Show", SHOWN, default="all", required=True, key="audit_shown")
        search = st.text_input("Search", key="audit_search", max_chars=100, placeholder="name, preset, reason")
        found = chosen(entries, kind or "all", search)
        st.download_button("CSV", lambda: audit_csv(found), file_name="headway-audit.csv", mime="text/csv",
                           key="audit_csv", help="The entries shown here, with times in UTC.")  # fmt: skip
    if not found:
        st.caption(f"None of the {len(entries)} entries matches.")
        return
    rows = audit_rows(found, zone_of(st.context.timezone_offset))
    st.dataframe(rows, hide_index=True, width="stretch", height="auto")
