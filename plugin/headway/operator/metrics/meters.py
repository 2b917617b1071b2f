"""The meters: what is counted of each request and step as it happens.

An event costs a few look-ups and additions, and no lock; a token costs nothing. Everything is written on the event
loop's thread, and read by a scrape on any thread.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count, takewhile

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from headway.admission import EndedRequest
from headway.distribution import Distribution
from headway.operator import attainment
from headway.operator.metrics.buckets import Range, bounds
from headway.operator.metrics.table import counter, gauge, histogram
from headway.operator.presets import PresetCatalogue
from headway_policies import Outcome

#: Objectives and time-outs of the presets are bounds as well (``buckets``).
_LONG_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.5, 5.0, 6.5, 8.0, 10.0,
           12.5, 15.0, 17.5, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 60.0, 75.0, 90.0, 120.0, 180.0, 300.0, 450.0,
           600.0, 1200.0, 3600.0)  # fmt: skip
_INTER_TOKEN_S = (0.002, 0.004, 0.006, 0.008, 0.01, 0.0125, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06, 0.07,
                  0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0)  # fmt: skip

#: The histogram of each duration; the key is how ``headway_longest_seconds`` names it.
_DURATIONS = {
    "wait": "headway_queue_wait_seconds",
    "first_token": "headway_time_to_first_token_seconds",
    "inter_token": "headway_inter_token_seconds",
    "end_to_end": "headway_end_to_end_seconds",
    "prefill": "headway_prefill_seconds",
    "decode": "headway_decode_seconds",
}
#: Batches that left before a request; none is the usual number.
_BATCHES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
#: The sizes of batches have buckets up to here at least.
_LEAST_SIZES = 1024
_FINISH_REASONS = ("stop", "length", "abort", "error")
_OTHER = "other"
#: How the answer of a dispatched request ended of which the engine has reported nothing.
_UNREPORTED = {
    Outcome.COMPLETED: _OTHER,
    Outcome.CANCELLED_RUNNING: "abort",
    Outcome.EXPIRED_RUNNING: "abort",
    Outcome.FAILED: "error",
    Outcome.ENGINE_LOST: "error",
}


class _ClassMeter:
    """The meters of one class; ``durations`` by their names in ``_DURATIONS``."""

    __slots__ = ("batches", "decode", "durations", "end_to_end", "finishes", "first_token", "inter_token", "judged",
                 "met", "output_tokens", "prefill", "prompt_tokens", "wait")  # fmt: skip

    def __init__(self, long_s: tuple[float, ...], inter_token_s: tuple[float, ...]) -> None:
        self.wait, self.first_token, self.end_to_end = (Distribution(long_s) for _ in range(3))
        self.inter_token = Distribution(inter_token_s)
        self.batches = Distribution(_BATCHES)
        self.prefill, self.decode = Distribution(_LONG_S), Distribution(_LONG_S)
        self.durations: dict[str, Distribution] = {name: getattr(self, name) for name in _DURATIONS}
        self.prompt_tokens = self.output_tokens = 0
        self.finishes: Counter[str] = Counter()
        self.judged: Counter[str] = Counter()
        self.met: Counter[str] = Counter()


class Meters(Collector):
    """The meters of one gate, in a registry. Raises ValueError where that has the metrics of another engine already.

    ``max_seats`` is the largest batch that has a bucket of its own; ``bounds_s`` and ``inter_token_bounds_s`` are
    bounds of buckets beside the usual ones, ``ranges_s`` and ``inter_token_ranges_s`` those in which objectives lie
    that are relative to the engine.
    """

    def __init__(
        self,
        class_names: Iterable[str],
        max_seats: int,
        registry: CollectorRegistry,
        *,
        bounds_s: Iterable[float] = (),
        inter_token_bounds_s: Iterable[float] = (),
        ranges_s: Iterable[Range] = (),
        inter_token_ranges_s: Iterable[Range] = (),
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        long_s = bounds(_LONG_S, bounds_s, ranges_s)
        inter_token_s = bounds(_INTER_TOKEN_S, inter_token_bounds_s, inter_token_ranges_s)
        self._classes = {name: _ClassMeter(long_s, inter_token_s) for name in class_names}
        self._batch = Distribution(_sizes(max_seats))
        self._clock_s = clock_s
        registry.register(self)

    @classmethod
    def for_presets(cls, catalogue: PresetCatalogue, registry: CollectorRegistry, ceiling: int | None = None) -> Meters:
        """Meters for the classes of these presets, with their objectives and time-outs among the bounds.

        ``ceiling`` is the seats of the engine, None where it does not say how many it has.
        """
        return cls(
            catalogue.class_names(),
            catalogue.stated_seats() if ceiling is None else ceiling,
            registry,
            bounds_s=catalogue.times_s(),
            inter_token_bounds_s=catalogue.inter_token_times_s(),
            ranges_s=catalogue.ranges_s(),
            inter_token_ranges_s=catalogue.inter_token_ranges_s(),
        )

    # ------------------------------------------------------------------ events

    def waited(self, class_name: str, wait_s: float, batches: int) -> None:
        """A ticket was dispatched after this wait, in which so many batches left before its own."""
        meter = self._classes[class_name]
        meter.wait.add(wait_s, self._clock_s())
        meter.batches.add(batches, 0.0)

    def first_token(self, class_name: str, delay_s: float, prefill_s: float) -> None:
        meter, now_s = self._classes[class_name], self._clock_s()
        meter.first_token.add(delay_s, now_s)
        meter.prefill.add(prefill_s, now_s)

    def ended(self, ended: EndedRequest) -> None:
        meter = self._classes[ended.class_name]
        if ended.usage is not None:
            meter.prompt_tokens += ended.usage.prompt_tokens
            meter.output_tokens += ended.usage.output_tokens
        if ended.dispatched:
            _count_finishes(meter.finishes, ended)
        if ended.outcome is Outcome.COMPLETED:
            self._completed(meter, ended)
        for objective, met in attainment.judged(ended).items():
            meter.judged[objective] += 1
            meter.met[objective] += met

    def step(self, sequences: int) -> None:
        """The engine made a step with this many sequences."""
        self._batch.add(sequences, 0.0)

    def _completed(self, meter: _ClassMeter, ended: EndedRequest) -> None:
        now_s = self._clock_s()
        meter.end_to_end.add(ended.total_s, now_s)
        if ended.pace_s > 0:
            meter.inter_token.add(ended.pace_s, now_s)
        if ended.decode_s is not None:
            meter.decode.add(ended.decode_s, now_s)

    def judged(self, objective: str) -> tuple[int, int]:
        """The judged requests of all classes for an objective, and the requests that met it."""
        meters = self._classes.values()
        return sum(meter.judged[objective] for meter in meters), sum(meter.met[objective] for meter in meters)

    # ------------------------------------------------------------------ the scrape

    def describe(self) -> Iterable[Metric]:
        """The families, so that a registry notices another engine's."""
        return list(self.collect())

    def collect(self) -> Iterator[Metric]:
        yield from self._durations()
        batch = histogram("headway_batch_size")
        read = self._batch.read(0.0)
        batch.add_metric([], read.buckets, read.total)
        yield batch
        waited = histogram("headway_batches_waited", "class")
        for name, meter in self._classes.items():
            read = meter.batches.read(0.0)
            waited.add_metric([name], read.buckets, read.total)
        yield waited
        yield from self._counts()

    def _durations(self) -> Iterator[Metric]:
        now_s, longest = self._clock_s(), gauge("headway_longest_seconds", "class", "of")
        for of, metric in _DURATIONS.items():
            family = histogram(metric, "class")
            for name, meter in self._classes.items():
                read = meter.durations[of].read(now_s)
                family.add_metric([name], read.buckets, read.total)
                longest.add_metric([name, of], read.recent_largest)
            yield family
        yield longest

    def _counts(self) -> Iterator[Metric]:
        prompts, outputs = (
            counter("headway_prompt_tokens_total", "class"),
            counter("headway_output_tokens_total", "class"),
        )
        finishes = counter("headway_finish_reasons_total", "class", "finish_reason")
        judged, met = (counter(f"headway_objective_{what}_total", "class", "objective") for what in ("judged", "met"))
        for name, meter in self._classes.items():
            prompts.add_metric([name], meter.prompt_tokens)
            outputs.add_metric([name], meter.output_tokens)
            for reason in (*_FINISH_REASONS, _OTHER):
                finishes.add_metric([name, reason], meter.finishes[reason])
            for objective in attainment.OBJECTIVES:
                judged.add_metric([name, objective], meter.judged[objective])
                met.add_metric([name, objective], meter.met[objective])
        yield from (prompts, outputs, finishes, judged, met)


def _count_finishes(finishes: Counter[str], ended: EndedRequest) -> None:
    """An unknown word of the engine is "other": labels come from here alone."""
    for reason in ended.finish_reasons:
        finishes[reason if reason in _FINISH_REASONS else _OTHER] += 1
    if not ended.finish_reasons and ended.outcome in _UNREPORTED:
        finishes[_UNREPORTED[ended.outcome]] += 1


def _sizes(max_seats: int) -> tuple[float, ...]:
    """The powers of two below the engine's seats, and the seats themselves."""
    powers = takewhile(lambda size: size <= max(_LEAST_SIZES, max_seats), (2**exponent for exponent in count()))
    return tuple(sorted({*map(float, powers), float(max_seats)}))
