"""The character of the recent traffic: rates, lengths, bursts and the mix of classes and tenants.

The rows are read in portions, between which other work of the event loop runs: a portion takes well below a
millisecond, however many rows there are.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import dataclass, field

from headway.api.schema import ClassTraffic, Lengths, Traffic
from headway.recorder.recorder import Recording

PEAK_S = 10.0
_PORTION = 500


async def summarise(recording: Recording) -> Traffic:
    """Summarise a recording."""
    tally = _Tally(recording)
    for begin in range(0, len(recording), _PORTION):
        tally.add(range(begin, min(begin + _PORTION, len(recording))))
        await asyncio.sleep(0)
    return tally.summary()


@dataclass(slots=True)
class _OfClass:
    requests: int = 0
    sequences: int = 0
    prompts: Counter[int] = field(default_factory=Counter)
    outputs: Counter[int] = field(default_factory=Counter)


class _Tally:
    """The sums over the rows that were read."""

    def __init__(self, recording: Recording) -> None:
        self._rows = recording
        self._classes = [_OfClass() for _ in recording.class_names]
        self._tenants = Counter[int]()
        self._gaps = self._square_gaps = 0.0
        self._peaks = Counter[int]()

    def add(self, places: range) -> None:
        """Read some more rows."""
        rows = self._rows
        for place in places:
            own = self._classes[rows.class_index[place]]
            own.requests += 1
            own.sequences += rows.sequences[place]
            own.prompts[rows.prompt_tokens[place]] += 1
            if rows.output_tokens[place]:
                own.outputs[rows.output_tokens[place]] += 1
            self._tenants[rows.tenant[place]] += 1
            self._peaks[int((rows.now_s - rows.at_s[place]) // PEAK_S)] += 1
            if place:
                gap_s = rows.at_s[place] - rows.at_s[place - 1]
                self._gaps += gap_s
                self._square_gaps += gap_s * gap_s

    def summary(self) -> Traffic:
        """The summary of all rows."""
        rows, count, span_s = self._rows, len(self._rows), self._rows.span_s
        named = zip(rows.class_names, self._classes, strict=True)
        largest = max(self._tenants.values(), default=0)
        return Traffic(
            span_s=span_s,
            whole=rows.whole,
            requests=count,
            rate_per_s=_rate(count, span_s),
            gap_cv=self._gap_cv(),
            peak_ratio=max(self._peaks.values()) * span_s / (PEAK_S * count) if count and span_s > PEAK_S else None,
            tenants=len(self._tenants),
            largest_tenant_ratio=largest / count if count else None,
            classes={name: _class(seen, span_s) for name, seen in named if seen.requests},
        )

    def _gap_cv(self) -> float | None:
        gaps = len(self._rows) - 1
        if gaps < 2 or self._gaps <= 0:
            return None
        mean_s = self._gaps / gaps
        return math.sqrt(max(0.0, self._square_gaps / gaps - mean_s * mean_s)) / mean_s


def _class(seen: _OfClass, span_s: float) -> ClassTraffic:
    return ClassTraffic(
        requests=seen.requests,
        rate_per_s=_rate(seen.requests, span_s),
        sequences=seen.sequences / seen.requests,
        prompt_tokens=_lengths(seen.prompts),
        output_tokens=_lengths(seen.outputs),
    )


def _rate(count: int, span_s: float) -> float:
    return count / span_s if span_s > 0 else 0.0


def _lengths(counts: Counter[int]) -> Lengths | None:
    """The figures of these lengths; None for none."""
    total = counts.total()
    if not total:
        return None
    ranked, quantiles, passed = sorted(counts), list[int](), 0
    wanted = [math.ceil(ratio * total) for ratio in (0.5, 0.95, 0.99)]
    for length in ranked:
        passed += counts[length]
        while len(quantiles) < len(wanted) and passed >= wanted[len(quantiles)]:
            quantiles.append(length)
    mean = sum(length * count for length, count in counts.items()) / total
    p50, p95, p99 = quantiles
    return Lengths(count=total, mean=mean, p50=p50, p95=p95, p99=p99, maximum=ranked[-1])
