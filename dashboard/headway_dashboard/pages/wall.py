"""The page for a screen on a wall: the diagnosis, the tiles and four charts of the Overview, and nothing to press."""

from __future__ import annotations

from dataclasses import replace

from headway_dashboard.components import headline
from headway_dashboard.pages import overview
from headway_dashboard.pages.charts import draw
from headway_dashboard.pages.overview import class_table, since, tiles
from headway_dashboard.pages.page_reading import PageReading

#: The most that a chart takes; the browser makes them lower until all fit on the screen.
_CHART_PX = 300
#: Larger type, no header, and no more margin than the screen needs. All sizes of Streamlit follow that of the page.
STYLE = """<style>
html { font-size: 19px; }
[data-testid="stHeader"], [data-testid="stToolbar"], [data-testid="stTooltipIcon"] svg, [data-testid="stPopover"] {
  display: none; }
.stMainBlockContainer { padding: 0.75rem 1.5rem 0.5rem; }
.stMainBlockContainer > [data-testid="stVerticalBlock"] { gap: 0.5rem; }
</style>"""


def _draw(reading: PageReading) -> None:
    headline(replace(reading.headline, remedy=None), since(reading))
    tiles(reading, courses=False)
    class_table(reading, pressable=False)
    draw(PAGE.panels, reading, key="headway-wall", height_px=_CHART_PX)


PAGE = replace(overview.PAGE, draw=_draw)
