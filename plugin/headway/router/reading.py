"""The reading of an instance: its limit, load and progress at one moment, from one scrape of its metrics; its model.

Headway's names are read where it runs, vLLM's own otherwise. A scrape is read line by line, so its cost is linear.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Final

_PREFIXES: Final = ("headway_", "vllm:")
#: Longer lines are no gauge or counter of these.
_MAX_LINE_CHARS: Final = 2048
#: No gauge or counter of these is as large.
_MOST: Final = 1e15
_MOST_NAME_CHARS: Final = 200

_LIMIT = "headway_limit"
_RUNNING = "vllm:num_requests_running"
_WAITING = ("headway_engine_waiting", "vllm:num_requests_waiting")  # the second may have the queue in it, too
_QUEUED = "headway_queue_depth"
_KV = ("vllm:kv_cache_usage_perc", "headway_engine_kv_cache_usage_ratio")
_PROMPTS, _CACHED = "vllm:prompt_tokens_total", "vllm:prompt_tokens_cached_total"
_TOKENS = ("vllm:generation_tokens_total", _PROMPTS)
_GAPS, _GAPS_S = "vllm:inter_token_latency_seconds_count", "vllm:inter_token_latency_seconds_sum"
_PREEMPTIONS = "vllm:num_preemptions_total"
_CACHE = "vllm:cache_config_info"
_BLOCK, _BLOCKS = re.compile(r'[{,]block_size="(\d{1,9})"'), re.compile(r'[{,]num_gpu_blocks="(\d{1,9})"')


@dataclass(frozen=True, slots=True)
class Reading:
    """``limit`` is the live limit of a Headway instance and ``reach`` the most that it may come to; None for plain
    vLLM, which does not say how many sequences it runs.

    ``running`` and ``waiting`` are requests, ``kv_use`` a share from 0 to 1, ``kv_tokens`` the space of the KV cache,
    None where it is not said. The others are counts so far: ``tokens`` all of prompts and answers, ``prompt_tokens``
    those of prompts that were in no cache, ``gaps`` between two tokens of a sequence, which took ``gaps_s`` in all, and
    ``preemptions``.
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


def read(exposition: str) -> Reading:
    """The reading in a scrape; what it lacks is 0."""
    found: dict[str, float] = {}
    limits: dict[str, int] = {}
    kv_tokens = 0
    for name, labels, value in samples(exposition):
        if name == _LIMIT:
            limits[labels] = max(0, int(value))
            continue
        if name == _CACHE:
            kv_tokens += _cache_tokens(labels)
            continue
        before = found.get(name, 0.0)
        found[name] = max(before, value) if name in _KV else before + value  # of several ranks the fullest
    return Reading(
        limit=limits.get('kind="live"}'),
        reach=limits.get('kind="reach"}'),
        running=int(found.get(_RUNNING, 0.0)),
        waiting=int(_first(found, _WAITING) + found.get(_QUEUED, 0.0)),
        kv_use=min(1.0, max(0.0, _first(found, _KV))),
        kv_tokens=kv_tokens or None,
        tokens=sum(found.get(name, 0.0) for name in _TOKENS),
        prompt_tokens=max(0.0, found.get(_PROMPTS, 0.0) - found.get(_CACHED, 0.0)),
        gaps=found.get(_GAPS, 0.0),
        gaps_s=found.get(_GAPS_S, 0.0),
        preemptions=found.get(_PREEMPTIONS, 0.0),
    )


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What an instance serves: the name of its model, empty where it says none, and its longest sequence in tokens."""

    name: str = ""
    context_tokens: int | None = None


def read_models(text: str) -> ServedModel:
    """The first model of an answer of ``/v1/models``. What is none serves none; a server that is not vLLM may not say
    its context.
    """
    try:
        first = json.loads(text)["data"][0]
        context_tokens = first.get("max_model_len")
        name = str(first["id"])[:_MOST_NAME_CHARS]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return ServedModel()
    is_number = isinstance(context_tokens, int) and not isinstance(context_tokens, bool) and context_tokens > 0
    return ServedModel(name, context_tokens if is_number else None)


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
        if isfinite(value) and abs(value) < _MOST:
            yield name, labels, value


def _cache_tokens(labels: str) -> int:
    """The tokens that the KV cache of one engine holds, by the labels of its settings; 0 where they do not say it."""
    block, blocks = (pattern.search(f"{{{labels}") for pattern in (_BLOCK, _BLOCKS))
    return int(block[1]) * int(blocks[1]) if block is not None and blocks is not None else 0


def _first(found: Mapping[str, float], names: tuple[str, ...]) -> float:
    return next((found[name] for name in names if name in found), 0.0)
