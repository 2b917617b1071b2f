"""What operators see and change: presets, switches, orders, the status, and the metrics.

One snapshot of the server is rendered as JSON and as Prometheus metrics.
"""

from headway.operator.control import Control, Switched
from headway.operator.install import install
from headway.operator.metrics import Meters, MetricsCollector
from headway.operator.presets import Listed, PresetCatalogue

__all__ = [
    "Control",
    "Listed",
    "Meters",
    "MetricsCollector",
    "PresetCatalogue",
    "Switched",
    "install",
]
