"""A notice at the top of a page, with a progress bar where the progress is known."""

from __future__ import annotations

import streamlit as st

from headway_dashboard.analysis.server.notices import Notice
from headway_dashboard.components.banner import plain

_BOXES = {"info": st.info, "warning": st.warning, "error": st.error}


def notice(one: Notice) -> None:
    """Draw one notice, with a progress bar where the progress is known."""
    _BOXES[one.kind](f"**{plain(one.title)}.** {plain(one.text)}")
    if one.progress is not None:
        st.progress(one.progress, text=plain(one.step))
