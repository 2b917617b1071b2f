"""Figures of a server from the bare text of its ``/metrics``, as a measure of what a page shows.

Nothing of the product and no parser is used here: what is compared with the dashboard must not share its mistakes.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import requests

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
#: Outcomes after which a client has its answer, or did not want it any more.
FINE = ("completed", "cancelled_queued", "cancelled_running")
#: Outcomes that a request without a reason may have.
WITHOUT_REASON = ("failed", "rejected_invalid")


@dataclass(frozen=True, slots=True)
class Look:
    """The samples of one text, and when it was asked for."""

    time_s: float
    samples: Sequence[tuple[str, Mapping[str, str], float]]

    def total(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name that carry these labels."""
        return sum(value for found, has, value in self.samples if found == name and labels.items() <= has.items())

    def by(self, name: str, label: str) -> dict[str, float]:
        """The sums of a metric by the values of a label."""
        sums: dict[str, float] = {}
        for found, has, value in self.samples:
            if found == name:
                sums[has[label]] = sums.get(has[label], 0.0) + value
        return sums


def look_of(text: str, time_s: float) -> Look:
    """The samples of Headway and the tokens of vLLM in a text."""
    ours = (line for line in text.splitlines() if line.startswith(("headway_", "vllm:generation_tokens_total")))
    found = (_SAMPLE.match(line) for line in ours)
    return Look(time_s, [(one[1], dict(_LABEL.findall(one[2] or "")), float(one[3])) for one in found if one])


class RawMetrics:
    """The looks at one server, every ``interval_s``."""

    def __init__(self, url: str, interval_s: float = 1.0) -> None:
        self.looks: list[Look] = []
        self._url, self._interval_s = f"{url}/metrics", interval_s
        self._stop = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[RawMetrics]:
        """Look in a thread of its own until the block ends."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join(30)

    def span_s(self) -> float:
        """How long it has been looking."""
        return self.looks[-1].time_s - self.looks[0].time_s if self.looks else 0.0

    def _run(self) -> None:
        with requests.Session() as session:
            while not self._stop.wait(self._interval_s):
                began_s = time.time()
                with suppress(requests.RequestException):  # a look that a busy machine misses is not the last one
                    text = session.get(self._url, timeout=20).text
                    self.looks.append(look_of(text, (began_s + time.time()) / 2))


@dataclass(frozen=True, slots=True)
class Spread:
    """What a figure was in all windows that the page may have meant: the least and the largest value."""

    low: float
    high: float

    def holds(self, shown: float, digits: float = 0.01, one: float = 0.0) -> bool:
        """Whether a number on a page lies between them, rounded as pages round; ``one`` is an event more or less."""
        return self.low * (1 - digits) - one <= shown <= self.high * (1 + digits) + one


Between = Callable[[Look, Look], float]


def rate_of(name: str, **labels: str) -> Between:
    """The increase of a counter a second."""
    return lambda first, last: (last.total(name, **labels) - first.total(name, **labels)) / (last.time_s - first.time_s)


def mean_of(name: str) -> Between:
    """The mean of what a histogram observed."""
    return lambda first, last: _grown(first, last, f"{name}_sum") / max(1.0, _grown(first, last, f"{name}_count"))


def failed_ratio(first: Look, last: Look) -> float:
    """Of the requests that ended, those without an answer, by their outcomes alone."""
    ended = _grown(first, last, "headway_outcomes_total")
    fine = sum(_grown(first, last, "headway_outcomes_total", outcome=outcome) for outcome in FINE)
    return 1 - fine / ended if ended else 0.0


def _grown(first: Look, last: Look, name: str, **labels: str) -> float:
    return last.total(name, **labels) - first.total(name, **labels)


def spread(looks: Sequence[Look], figure: Between, end_s: float, window_s: float, interval_s: float) -> Spread:
    """A figure over each window that begins and ends within an interval of what is meant."""
    begins = [look for look in looks if abs(look.time_s - (end_s - window_s)) <= interval_s]
    ends = [look for look in looks if abs(look.time_s - end_s) <= interval_s]
    values = [figure(first, last) for first in begins for last in ends]
    assert values, "nothing was looked at in this time"
    return Spread(min(values), max(values))


def gauge_spread(looks: Sequence[Look], name: str, end_s: float, interval_s: float) -> Spread:
    """What a gauge was within an interval of a time."""
    values = [look.total(name) for look in looks if abs(look.time_s - end_s) <= interval_s]
    assert values, "nothing was looked at in this time"
    return Spread(min(values), max(values))
