"""The reading of a server: its load and its signals at one moment, from one scrape of its metrics.

Where a scrape fails, what was known before is kept and is stale: a count that fell to 0 would be a server that began
anew, and its next reading would have all that it ever counted as growth.

``headway route`` reads plain vLLM, too; every server of a fleet has Headway, whose seats and classes are read here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

import aiohttp

from headway.router.reading import samples

log = logging.getLogger("ray.serve")

_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class ClassReading:
    """What waits of one class: requests, the age of the oldest, and the objective for the first token."""

    depth: int = 0
    age_s: float = 0.0
    objective_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """``seats`` is the live limit, ``running`` the seats that are taken, ``demand`` the demand as a multiple of the
    limit. ``kv_use`` is a share; ``seat_s`` and ``seated`` are the seconds that ended requests have held their seats,
    and their number; ``judged`` and ``met`` count requests by their objectives, ``tokens`` what the engine has
    computed. All but the gauges only grow. One that is ``stale`` is not ready and has all else from before: the server
    did not answer.
    """

    ready: bool = False
    seats: int = 0
    running: int = 0
    demand: float = 0.0
    kv_use: float = 0.0
    seat_s: float = 0.0
    seated: float = 0.0
    judged: float = 0.0
    met: float = 0.0
    tokens: float = 0.0
    classes: Mapping[str, ClassReading] = field(default_factory=dict)
    stale: bool = False

    @property
    def waiting(self) -> int:
        """Requests that wait, of all classes."""
        return sum(one.depth for one in self.classes.values())


def read(exposition: str) -> Reading:
    """The reading in a scrape; what it lacks is 0."""
    found = _Samples(exposition)
    return Reading(
        ready=found.total("headway_ready") > 0,
        seats=int(found.total("headway_limit", kind="live")),
        running=int(found.total("headway_seats_taken")),
        demand=found.total("headway_scale_ratio"),
        kv_use=min(1.0, max(0.0, found.total("headway_engine_kv_cache_usage_ratio"))),
        seat_s=found.total("headway_prefill_seconds_sum") + found.total("headway_decode_seconds_sum"),
        seated=found.total("headway_prefill_seconds_count"),
        judged=found.total("headway_objective_judged_total", objective="both"),
        met=found.total("headway_objective_met_total", objective="both"),
        tokens=found.total("vllm:generation_tokens_total") + found.total("vllm:prompt_tokens_total"),
        classes={name: found.of_class(name) for name in found.classes()},
    )


class Readings:
    """The readings of one server. Every ``now_s`` is of one monotonic clock.

    ``scrape`` may raise aiohttp.ClientError, OSError or ValueError. One is under way at a time, so that no answer that
    comes late takes the place of a newer one.
    """

    def __init__(self, scrape: Callable[[], Awaitable[str]], fresh_s: float) -> None:
        self._scrape = scrape
        self._fresh_s = fresh_s
        self._known, self._asked_s, self._asking = Reading(), -inf, False

    async def newest(self, now_s: float) -> Reading:
        """The reading of this moment; what is known where the last one is fresh, or another call asks already."""
        if not self._asking and now_s - self._asked_s >= self._fresh_s:
            self._asking, self._asked_s = True, now_s
            try:
                self._known = await self._next()
            finally:
                self._asking = False
        return self._known

    async def _next(self) -> Reading:
        try:
            return read(await self._scrape())
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if not self._known.stale:
                log.warning("headway: the metrics of the server could not be read: %s: %s", type(error).__name__, error)
            return replace(self._known, ready=False, stale=True)


class _Samples:
    """The samples of a scrape, as (labels, value) by name."""

    def __init__(self, exposition: str) -> None:
        self._samples: dict[str, list[tuple[dict[str, str], float]]] = {}
        for name, labels, value in samples(exposition):
            if not name.endswith("_bucket"):
                self._samples.setdefault(name, []).append((dict(_LABEL.findall(labels)), value))

    def total(self, name: str, **labels: str) -> float:
        """The sum of the samples that carry these labels."""
        return sum(value for carried, value in self._samples.get(name, ()) if labels.items() <= carried.items())

    def classes(self) -> list[str]:
        return [labels["class"] for labels, _ in self._samples.get("headway_queue_depth", ())]

    def of_class(self, name: str) -> ClassReading:
        labels = {"class": name}
        objective_s = self.total("headway_objective_seconds", **labels, objective="first_token")
        return ClassReading(
            int(self.total("headway_queue_depth", **labels)),
            self.total("headway_queue_oldest_wait_seconds", **labels),
            objective_s or None,
        )
