"""Where do the numbers come from? Two sources behind one protocol, a switch between them, and its own words."""

from headway_dashboard.analysis.reading import Health, Reading, Source
from headway_dashboard.sources.fallback import FallbackSource
from headway_dashboard.sources.prometheus import PrometheusSource
from headway_dashboard.sources.scrape import ScrapeSource
from headway_dashboard.sources.telling import StatusSource

__all__ = ["FallbackSource", "Health", "PrometheusSource", "Reading", "ScrapeSource", "Source", "StatusSource"]
