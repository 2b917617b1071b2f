"""Readings as charts: the plotly figure of a panel, its marks, and the series as CSV."""
