"""The sources of series and status: Prometheus, direct scrapes, a fallback between them, and the admin API."""

from headway_dashboard.analysis.reading import Health, Reading, Source
from headway_dashboard.sources.fallback import FallbackSource
from headway_dashboard.sources.prometheus import PrometheusSource
from headway_dashboard.sources.scrape import ScrapeSource
from headway_dashboard.sources.server_status import StatusSource

__all__ = ["FallbackSource", "Health", "PrometheusSource", "Reading", "ScrapeSource", "Source", "StatusSource"]
