"""Where do the numbers come from? Two sources behind one protocol, and a switch between them."""

from headway_dashboard.sources.fallback import FallbackSource
from headway_dashboard.sources.prometheus import PrometheusSource
from headway_dashboard.sources.reading import Health, Reading, Source
from headway_dashboard.sources.scrape import ScrapeSource

__all__ = ["FallbackSource", "Health", "PrometheusSource", "Reading", "ScrapeSource", "Source"]
