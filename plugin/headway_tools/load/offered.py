"""The requests that a live server is offered: those of the simulator's workloads and traces, at a rate of its own.

A workload is drawn for a model of an engine; its rate is linear in its load, so that the same draw serves any rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headway.errors import HeadwayError
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.traffic.trace import MAX_ROWS, Trace
from headway_simulator.traffic.traffic import mean_rate
from headway_simulator.traffic.workload import CLASSES, Request, Workload

#: The most requests of one arm, which are in memory before the first is sent (as many as of a trace).
MAX_REQUESTS = MAX_ROWS

_LEAST_SPAN_S = 1.0
_MODEL, _SLO = EngineModel(), Slo()


class LoadError(HeadwayError):
    """A load that cannot be offered."""


@dataclass(frozen=True, slots=True)
class Source:
    """A workload, or a trace; ``classes`` replace the shares of the workload.

    ``max_tokens`` is the longest sequence of the model: prompts and answers are cut to it.
    """

    workload: Workload
    trace: Trace | None = None
    classes: Mapping[str, float] | None = None
    max_tokens: int | None = None

    @property
    def words(self) -> str:
        """A description."""
        if self.trace is not None:
            return self.trace.name
        return f"{self.workload.name}, {self.workload.summary}"

    @property
    def own_rate_per_s(self) -> float | None:
        """The rate at which a trace was recorded; None for a workload, which has none."""
        return None if self.trace is None else self.trace.rate_per_s

    def requests(self, seed: int, rate_per_s: float, duration_s: float) -> list[Request]:
        """The requests of the first ``duration_s`` seconds at this mean rate. Raises LoadError for too many."""
        if self.trace is not None:
            own_per_s = self.trace.rate_per_s
            trace = self.trace.scaled(time=own_per_s / rate_per_s) if own_per_s else self.trace
            return self._cut(trace.requests(seed, duration_s, self.classes or CLASSES))
        if rate_per_s * duration_s > MAX_REQUESTS:
            raise LoadError(f"{rate_per_s:.0f} requests/s for {duration_s:g} s are more than {MAX_REQUESTS} requests")
        workload = self.workload if self.classes is None else replace(self.workload, classes=self.classes)
        full_per_s = mean_rate(workload, duration_s, workload.rates_per_s(_MODEL, _SLO, 1.0))
        return self._cut(workload.requests(duration_s, seed, model=_MODEL, slo=_SLO, load=rate_per_s / full_per_s))

    def span_s(self, rate_per_s: float) -> float | None:
        """The length of the load at this rate, at least a second; None for a workload, which has no end."""
        if self.trace is None:
            return None
        return max(self.trace.span_s * self.trace.rate_per_s / rate_per_s, _LEAST_SPAN_S)

    def endless(self, seed: int) -> Iterator[Request]:
        """The same requests without their times, over and over, for clients that send when they are free."""
        drawn = self.requests(seed, 1.0, 1000.0) or [Request(0.0, "", 16, 16)]
        while True:
            yield from drawn

    def _cut(self, requests: Sequence[Request]) -> list[Request]:
        most = self.max_tokens
        if most is None:
            return list(requests)
        return [_within(request, most) for request in requests]


def _within(request: Request, most: int) -> Request:
    output = min(request.output_tokens, most - 1)
    return request._replace(prompt_tokens=min(request.prompt_tokens, most - output), output_tokens=output)
