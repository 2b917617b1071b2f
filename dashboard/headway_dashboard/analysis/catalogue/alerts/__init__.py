"""The rules of alerting: one table, which Prometheus gets as a file and the page evaluates itself."""

from headway_dashboard.analysis.catalogue.alerts import (
    availability,
    diagnosis,
    engine,
    errors,
    objectives,
    queue,
    resources,
)  # fmt: skip
from headway_dashboard.analysis.catalogue.alerts.recorded import RECORDED
from headway_dashboard.analysis.catalogue.alerts.rule import Rule

__all__ = ["GROUPS", "RULES"]

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
#: Every alert, in the order of the rules file.
RULES = tuple(rule for group in GROUPS for rule in group.rules if isinstance(rule, Rule))
