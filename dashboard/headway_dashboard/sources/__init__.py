"""The sources of series and status: Prometheus, direct scrapes, a fallback between them, and the admin API."""

from headway_dashboard.analysis.queries.reading import Health, Questions, Source, SourceReading, read
from headway_dashboard.sources.chosen import ChosenSource
from headway_dashboard.sources.fallback import FallbackSource
from headway_dashboard.sources.merged_status import MergedStatusSource
from headway_dashboard.sources.prometheus import PrometheusSource
from headway_dashboard.sources.scrape_source import ScrapeSource
from headway_dashboard.sources.server_status import ServerStatusSource
from headway_dashboard.sources.status_source import StatusSource
from headway_dashboard.sources.tenant_usage import TenantUsage, TenantUsageSource, read_together

__all__ = [
    "ChosenSource",
    "FallbackSource",
    "Health",
    "MergedStatusSource",
    "PrometheusSource",
    "Questions",
    "ScrapeSource",
    "ServerStatusSource",
    "Source",
    "SourceReading",
    "StatusSource",
    "TenantUsage",
    "TenantUsageSource",
    "read",
    "read_together",
]
