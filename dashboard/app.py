"""The dashboard for ``streamlit run dashboard/app.py``; ``headway dashboard`` starts the same from the wheel."""

import streamlit as st

from headway_dashboard.server import SCRIPT, routes
from headway_dashboard.shared import watching

app = st.App(SCRIPT, routes=routes(), lifespan=watching)
