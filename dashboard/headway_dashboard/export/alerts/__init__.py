"""The alerts by what they watch, and the recorded series that they read."""

from headway_dashboard.export.alerts import availability, diagnosis, engine, errors, objectives, queue, resources
from headway_dashboard.export.alerts.recorded import RECORDED

__all__ = ["GROUPS"]

GROUPS = (
    RECORDED,
    availability.GROUP,
    errors.GROUP,
    objectives.GROUP,
    diagnosis.GROUP,
    queue.GROUP,
    engine.GROUP,
    resources.GROUP,
)
