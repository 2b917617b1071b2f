"""The ratio of two gauges, for what the alerts compare; the pages read gauges one by one."""

from __future__ import annotations

from dataclasses import dataclass

from headway_dashboard.analysis.queries.expressions import Gauge, Metric


@dataclass(frozen=True, slots=True)
class Ratio:
    """One gauge as a share of another, both kept apart by the same labels; a gap where the whole is 0."""

    part: Gauge
    whole: Gauge

    @property
    def by(self) -> tuple[str, ...]:
        """The labels by which the lines are kept apart."""
        return self.part.by

    @property
    def metric(self) -> Metric:
        """The metric of the part."""
        return self.part.metric

    def promql(self, window: str) -> str:
        """PromQL; gauges need no window."""
        return f"{self.part.promql(window)} / ({self.whole.promql(window)} > 0)"
