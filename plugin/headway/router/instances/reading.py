"""The reading of an instance: its limit, load and progress at one moment, from one scrape of its metrics; its model.

Headway's names are read where it runs, else those of the maker's dialect. A scrape is read line by line, so its cost is
linear.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Final

from headway.router.instances.dialects import DIALECTS, Dialect, Names, dialect_of

_PREFIXES: Final = ("headway_", *(dialect.prefix for dialect in DIALECTS))
#: Longer lines are no gauge or counter of these.
_MAX_LINE_CHARS: Final = 2048
#: No gauge or counter of these is as large.
_MOST: Final = 1e15
_MOST_NAME_CHARS: Final = 200

_LIMIT, _QUEUED = "headway_limit", "headway_queue_depth"
_SHARES: Final = frozenset(name for dialect in DIALECTS for name in dialect.kv_use)
#: SGLang's count of one priority, which is in the total.
_PART: Final = re.compile(r'[{,]priority="[^"]')
#: The figures that a scrape may lack, by the field of the dialect, in the words of ``headway status``.
_LACKS: Final = {
    "running": "load", "kv_use": "KV use", "kv_tokens": "KV space", "work": "progress", "gaps": "time between tokens",
}  # fmt: skip
_CACHE = "vllm:cache_config_info"
_BLOCK, _BLOCKS = re.compile(r'[{,]block_size="(\d{1,9})"'), re.compile(r'[{,]num_gpu_blocks="(\d{1,9})"')


@dataclass(frozen=True, slots=True)
class InstanceReading:
    """The figures of an instance at one moment, from one scrape of its metrics.

    ``limit`` is the live limit of a Headway instance and ``reach`` the most that it may come to; None for others.
    ``running`` and ``waiting`` are requests, ``kv_use`` a share from 0 to 1, ``kv_tokens`` the space of the KV cache,
    None where it is not stated. The others are counts so far: ``tokens`` all of prompts and answers, or another figure
    that grows while the engine computes; ``prompt_tokens`` those of prompts that were in no cache, ``gaps`` between two
    tokens of a sequence, which took ``gaps_s`` in all, and ``preemptions``. ``lacks`` are the figures that the server
    does not state.
    """

    limit: int | None = None
    reach: int | None = None
    running: int = 0
    waiting: int = 0
    kv_use: float = 0.0
    kv_tokens: int | None = None
    tokens: float = 0.0
    prompt_tokens: float = 0.0
    gaps: float = 0.0
    gaps_s: float = 0.0
    preemptions: float = 0.0
    lacks: tuple[str, ...] = field(default=tuple(_LACKS.values()), compare=False)

    @property
    def says_progress(self) -> bool:
        """Whether the reading shows that the engine computes."""
        return _LACKS["work"] not in self.lacks


def read(exposition: str) -> InstanceReading:
    """The reading in a scrape; a missing figure is 0."""
    found: dict[str, float] = {}
    limits: dict[str, int] = {}
    kv_tokens = 0
    for name, labels, value in samples(exposition):
        if name == _LIMIT:
            limits[labels] = max(0, int(value))
        elif name == _CACHE:
            kv_tokens += _cache_tokens(labels)
        elif _PART.search(f"{{{labels}") is None:
            before = found.get(name, 0.0)
            found[name] = max(before, value) if name in _SHARES else before + value  # of several ranks the fullest
    dialect = next((known for known in DIALECTS if any(name.startswith(known.prefix) for name in found)), DIALECTS[0])
    kv_tokens = kv_tokens or int(_first(found, dialect.kv_tokens))
    kv_use = _first(found, dialect.kv_use) or _first(found, dialect.kv_used) / (kv_tokens or 1)
    said = {name for name in _LACKS if any(key in found for key in getattr(dialect, name))}
    said |= {"kv_tokens"} if kv_tokens else set()
    said |= {"kv_use"} if kv_tokens and any(key in found for key in dialect.kv_used) else set()
    return InstanceReading(
        limit=limits.get('kind="live"}'),
        reach=limits.get('kind="reach"}'),
        running=int(_first(found, dialect.running)),
        waiting=int(_first(found, dialect.waiting) + found.get(_QUEUED, 0.0)),
        kv_use=min(1.0, max(0.0, kv_use)),
        kv_tokens=kv_tokens or None,
        tokens=sum(found.get(name, 0.0) for name in dialect.work),
        prompt_tokens=max(0.0, _first(found, dialect.prompts) - _first(found, dialect.cached)),
        gaps=_first(found, dialect.gaps),
        gaps_s=_first(found, dialect.gaps_s),
        preemptions=_first(found, dialect.preemptions),
        lacks=tuple(words for name, words in _LACKS.items() if name not in said),
    )


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The model of an instance: its name, its longest sequence in tokens, and the most sequences at once.

    The name is empty, the others None, where the instance does not state them. ``dialect`` is None for an unknown
    maker.
    """

    name: str = ""
    context_tokens: int | None = None
    seats: int | None = None
    dialect: Dialect | None = None


def read_models(text: str) -> ServedModel:
    """The first model of an answer of ``/v1/models``; no model for any other answer."""
    try:
        first = json.loads(text)["data"][0]
        name = str(first["id"])
        dialect = dialect_of(first.get("owned_by"), name)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return ServedModel()
    return _with(ServedModel(name[:_MOST_NAME_CHARS], dialect=dialect), first)


def read_info(model: ServedModel, text: str) -> ServedModel:
    """The same model, completed by the server's own route."""
    try:
        return _with(model, json.loads(text))
    except ValueError:
        return model


def _with(model: ServedModel, said: Any) -> ServedModel:
    """The model with the figures at the places of its dialect, but for the known ones."""
    dialect = model.dialect or DIALECTS[0]
    context = model.context_tokens or _number(said, dialect.context)
    return replace(model, context_tokens=context, seats=model.seats or _number(said, dialect.seats))


def _number(said: Any, places: Names) -> int | None:
    """The first whole number above 0 at these dotted places; None without one."""
    return next((found for place in places if (found := _at(said, place.split("."))) > 0), None)


def _at(said: Any, steps: list[str]) -> int:
    """The number at a place; of a list the sum of its elements, 0 where there is none."""
    if isinstance(said, list):
        return sum(_at(figure, steps) for figure in said)
    if steps:
        return _at(said.get(steps[0]), steps[1:]) if isinstance(said, dict) else 0
    return said if isinstance(said, int) and not isinstance(said, bool) else 0


def samples(exposition: str) -> Iterator[tuple[str, str, float]]:
    """Name, labels and value of each sample of Headway or a known maker; the labels as the text after the brace."""
    for line in exposition.split("\n"):
        if len(line) > _MAX_LINE_CHARS or not line.startswith(_PREFIXES):
            continue
        head, _, number = line.rpartition(" ")
        name, _, labels = head.partition("{")
        try:
            value = float(number)
        except ValueError:
            continue
        if isfinite(value) and abs(value) < _MOST:
            yield name, labels, value


def _cache_tokens(labels: str) -> int:
    """The tokens that the KV cache of one engine holds, by the labels of its settings; 0 where they do not say it."""
    block, blocks = (pattern.search(f"{{{labels}") for pattern in (_BLOCK, _BLOCKS))
    return int(block[1]) * int(blocks[1]) if block is not None and blocks is not None else 0


def _first(found: Mapping[str, float], names: tuple[str, ...]) -> float:
    return next((found[name] for name in names if name in found), 0.0)
