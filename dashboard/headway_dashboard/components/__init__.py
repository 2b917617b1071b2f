"""Pieces of a page that more than one view draws."""

from headway_dashboard.components.alerts import alerts
from headway_dashboard.components.banner import banner
from headway_dashboard.components.class_table import class_table
from headway_dashboard.components.headline import headline
from headway_dashboard.components.live_plot import live_plot
from headway_dashboard.components.notice import notice
from headway_dashboard.components.sortable_table import sortable_table
from headway_dashboard.components.table import table
from headway_dashboard.components.tile import tile

__all__ = ["alerts", "banner", "class_table", "headline", "live_plot", "notice", "sortable_table", "table", "tile"]
