"""The demo: a source without a server, for a look at the pages. Its figures are simulated, and it says so."""

from headway_dashboard.sources.demo.source import DemoSource
from headway_dashboard.sources.demo.status import DemoStatus

__all__ = ["DemoSource", "DemoStatus"]
