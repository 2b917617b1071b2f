"""The script that Streamlit runs for each visitor and each interaction."""

from headway_dashboard.page import main

main()
