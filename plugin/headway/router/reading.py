"""The reading of an instance: its seats, load and progress at one moment, from one scrape of its metrics.

Headway's names are read where it runs, vLLM's own otherwise. A scrape is read line by line, so its cost is linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Final

_PREFIXES: Final = ("headway_", "vllm:")
#: Longer lines are no gauge or counter of these.
_MAX_LINE_CHARS: Final = 2048

_SEATS = "headway_limit"
_RUNNING = "vllm:num_requests_running"
_WAITING = ("headway_engine_waiting", "vllm:num_requests_waiting")  # the second may have the queue in it, too
_QUEUED = "headway_queue_depth"
_KV = ("vllm:kv_cache_usage_perc", "headway_engine_kv_cache_usage_ratio")
_TOKENS = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")


@dataclass(frozen=True, slots=True)
class Reading:
    """``seats``: the live limit of a Headway instance; None for plain vLLM, which does not say how many it has.

    ``running`` and ``waiting`` are requests, ``kv_use`` a share from 0 to 1, ``tokens`` all that were computed so far.
    """

    seats: int | None = None
    running: int = 0
    waiting: int = 0
    kv_use: float = 0.0
    tokens: float = 0.0


def read(exposition: str) -> Reading:
    """The reading in a scrape; what it lacks is 0."""
    found: dict[str, float] = {}
    for name, labels, value in samples(exposition):
        if name == _SEATS and 'kind="live"' not in labels:
            continue
        before = found.get(name, 0.0)
        found[name] = max(before, value) if name in _KV else before + value  # of several ranks the fullest
    seats = found.get(_SEATS)
    return Reading(
        seats=None if seats is None else max(0, int(seats)),
        running=int(found.get(_RUNNING, 0.0)),
        waiting=int(_first(found, _WAITING) + found.get(_QUEUED, 0.0)),
        kv_use=min(1.0, max(0.0, _first(found, _KV))),
        tokens=sum(found.get(name, 0.0) for name in _TOKENS),
    )


def samples(exposition: str) -> Iterator[tuple[str, str, float]]:
    """Name, labels and value of each sample of Headway or vLLM; the labels as the text after the brace."""
    for line in exposition.split("\n"):
        if len(line) > _MAX_LINE_CHARS or not line.startswith(_PREFIXES):
            continue
        head, _, number = line.rpartition(" ")
        name, _, labels = head.partition("{")
        try:
            value = float(number)
        except ValueError:
            continue
        if isfinite(value):
            yield name, labels, value


def _first(found: Mapping[str, float], names: tuple[str, ...]) -> float:
    return next((found[name] for name in names if name in found), 0.0)
