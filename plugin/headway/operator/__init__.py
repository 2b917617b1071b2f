"""The operator's view and means of change: presets, switches, commands, the status, and the metrics.

A snapshot of the server is rendered as JSON and as Prometheus metrics.
"""

from headway.operator.control import Control
from headway.operator.forecasts import unsaved_preset
from headway.operator.install import EngineParts, Surroundings, install, prepare
from headway.operator.metrics import Meters, MetricsCollector, UsageCollector
from headway.operator.presets import Listed, PresetCatalogue
from headway.operator.reach import follows_engine, stated_seats
from headway.operator.scaling import Fleet, arrivals_file, scaling_from_environment
from headway.operator.status.snapshot import SIMULATED, ServerIdentity

__all__ = [
    "SIMULATED",
    "Control",
    "EngineParts",
    "Fleet",
    "Listed",
    "Meters",
    "MetricsCollector",
    "PresetCatalogue",
    "ServerIdentity",
    "Surroundings",
    "UsageCollector",
    "arrivals_file",
    "follows_engine",
    "install",
    "prepare",
    "scaling_from_environment",
    "stated_seats",
    "unsaved_preset",
]
