"""The Prometheus metrics of one server.

table              every metric, its kind and its help text
meters             what is counted as it happens: durations, tokens, finish reasons, objectives
http_families      refusals of the route guard and of the retry budget, responses without an end
grammar_families   grammars that were checked before the engine compiled them
usage_families     what the accounting has counted, by tenant
collector          a scrape: a snapshot of the server (snapshot_families) and the machine (machine_families)
"""

from headway.operator.metrics.collector import MetricsCollector
from headway.operator.metrics.grammar_families import GrammarCollector
from headway.operator.metrics.http_families import HttpCollector
from headway.operator.metrics.meters import Meters
from headway.operator.metrics.table import METRIC_NAMES, TABLE
from headway.operator.metrics.usage_families import UsageCollector

__all__ = ["METRIC_NAMES", "TABLE", "GrammarCollector", "HttpCollector", "Meters", "MetricsCollector", "UsageCollector"]
