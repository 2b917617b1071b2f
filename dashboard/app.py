"""The dashboard for ``streamlit run dashboard/app.py``; ``headway dashboard`` starts the same from the wheel."""

import streamlit as st

from headway_dashboard.server import PACKED, SCRIPT, routes
from headway_dashboard.shared import watching
from headway_dashboard.trusted_proxy import middleware

app = st.App(SCRIPT, routes=routes(), middleware=[*middleware(), PACKED], lifespan=watching)
