"""What operators see and change: presets, switches, orders, the status, and the metrics.

One snapshot of the server is rendered as JSON and as Prometheus metrics.
"""

from headway.operator.admission_orders import AdmissionChange
from headway.operator.control import Control, Switched
from headway.operator.forecasts import unsaved_preset
from headway.operator.install import EngineParts, install, prepare
from headway.operator.metrics import Meters, MetricsCollector
from headway.operator.presets import Listed, PresetCatalogue
from headway.operator.reach import follows_engine, stated_seats
from headway.operator.scaling import Fleet, arrivals_file, scaling_from_environment
from headway.operator.snapshot import InstanceReading, ServerIdentity
from headway.operator.trials import PresetTrial

__all__ = [
    "AdmissionChange",
    "Control",
    "EngineParts",
    "Fleet",
    "InstanceReading",
    "Listed",
    "Meters",
    "MetricsCollector",
    "PresetCatalogue",
    "PresetTrial",
    "ServerIdentity",
    "Switched",
    "arrivals_file",
    "follows_engine",
    "install",
    "prepare",
    "scaling_from_environment",
    "stated_seats",
    "unsaved_preset",
]
