"""The colours, by meaning. Fixed by meaning, the same on every page and in both themes.

The hues are those of Okabe and Ito (2008), which stay apart for colour-blind readers, lightened or darkened a little so
that they hold on white and on dark grey. Lines that share a chart differ in dash as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from zlib import crc32

BLUE = "#3b8bd0"
ORANGE = "#e08a1e"
GREEN = "#1fa187"
RED = "#d1495b"
SKY = "#62b6e7"
PURPLE = "#b4699f"
GOLD = "#c7a41b"
GREY = "#8a93a3"
BROWN = "#9c6b4e"

#: No class is orange or red: those mean warning and critical.
_CLASSES = {"realtime": PURPLE, "normal": BLUE, "batch": GREEN}
_OTHERS = (GOLD, SKY, BROWN)

#: Engine state: the word on the page and the colour.
ENGINE_STATES = {
    "up": ("up", GREEN),
    "silent": ("unresponsive", GOLD),
    "restarting": ("restarting", ORANGE),
    "lost": ("lost", RED),
}

#: The words for an engine that came into a state.
ENGINE_WORDS = {state: f"engine {words}" for state, (words, _) in ENGINE_STATES.items()}

#: Why an engine ended.
DEATHS = {
    "crash": ("crashed", RED),
    "out_of_memory": ("out of memory", PURPLE),
    "hang": ("ended because it hung", ORANGE),
    "recycle": ("replaced (recycle)", GREEN),
}

#: How the ladder degraded a request.
LOSSES = {
    "max_tokens": ("answer shortened", BLUE),
    "order": ("out of order (bypass)", GOLD),
    "refused": ("refused", RED),
    "model": ("another model answered", PURPLE),
    "fixed_reply": ("fixed reply", ORANGE),
}

#: The caches that can be cleared.
CACHES = {
    "prefix": ("cached prefixes", BLUE),
    "worker": ("the engine's workers", ORANGE),
    "heap": ("the server's heap", GREEN),
}

#: The server's processes.
PROCESSES = {"api_server": ("API server", GOLD), "engine": ("engine", GREEN)}

#: The predicted figures.
PREDICTIONS = {"output_tokens": ("answer length", BLUE), "queue_wait": ("wait in the queue", ORANGE)}

#: Figures of a forecast.
FORECASTS = {
    "tokens_per_s": ("tokens/s", BLUE),
    "mean_batch": ("mean batch", ORANGE),
    "ttft_p50_s": ("first token, p50", GREEN),
    "ttft_p95_s": ("first token, p95", PURPLE),
}

#: Generations of Python's collector: the older, the longer it takes.
GENERATIONS = {"0": ("generation 0", GREEN), "1": ("generation 1", BLUE), "2": ("generation 2 (full)", RED)}

#: How a request ended, whether it failed or not.
OUTCOMES = {
    "completed": ("completed", GREEN),
    "failed": ("failed", RED),
    "rejected_full": ("refused, queue full", ORANGE),
    "rejected_limit": ("refused, limit", GOLD),
    "rejected_invalid": ("refused, invalid", "#5f6b7d"),
    "shed": ("shed by the ladder", "#73c2ad"),
    "expired_queued": ("timed out waiting", BLUE),
    "expired_running": ("timed out running", PURPLE),
    "cancelled_queued": ("cancelled waiting", GREY),
    "cancelled_running": ("cancelled running", "#b3a9a0"),
    "engine_lost": ("engine lost", BROWN),
    "drained": ("server draining", SKY),
}

#: The states of a batch that has not ended.
BATCH_STATUSES = {
    "validating": ("validating or waiting", GREY),
    "in_progress": ("in progress", GREEN),
    "finalizing": ("finalizing", BLUE),
    "cancelling": ("cancelling", GOLD),
}

#: Why a completed answer ended where it did.
FINISHES = {
    "stop": ("stop: the model ended it", GREEN),
    "length": ("length: token limit reached", BLUE),
    "abort": ("abort: client or server ended it", GOLD),
    "error": ("error", RED),
    "other": ("other", GREY),
}

#: Where the processor time goes.
PROCESSORS = {"api_server": ("API server", GOLD), "engine": ("engine", GREEN), "machine": ("whole machine", GREY)}

#: The parts of the memory of an engine.
COMPONENTS = {"weights": ("weights", PURPLE), "kv_cache": ("KV cache", BLUE)}

#: Few to many, in a heat map: the order holds for colour-blind readers and in grey, on white and on dark grey.
HEAT = ((0.0, "#41557d"), (0.5, "#93896f"), (1.0, "#f0d02f"))

Meanings = Mapping[str, tuple[str, str]]


def words_of(meanings: Meanings) -> Callable[[str], str]:
    """The words for each of these."""
    return lambda name: meanings[name][0] if name in meanings else name.replace("_", " ")


def colour_of(meanings: Meanings) -> Callable[[str], str]:
    """The colour of each of these."""
    return lambda name: meanings[name][1] if name in meanings else GREY


def of_class(name: str) -> str:
    """The colour of a class; one of its own for each of the three usual names, a stable one for any other."""
    return _CLASSES.get(name) or _OTHERS[crc32(name.encode()) % len(_OTHERS)]


def of_gpu(name: str) -> str:
    """The colour of a GPU, by its number."""
    hues = (GREEN, BLUE, PURPLE, GOLD, SKY, ORANGE, BROWN, RED)
    return hues[int(name) % len(hues)] if name.isdecimal() else GREEN


def of_tenant(name: str) -> str:
    """A stable colour of a tenant; several share one, and the legend tells them apart."""
    hues = (BLUE, ORANGE, GREEN, PURPLE, GOLD, SKY, BROWN, RED)
    return GREY if name == "(other)" else hues[crc32(name.encode()) % len(hues)]


def class_order(names: Iterable[str]) -> list[str]:
    """The usual classes by urgency first, then the others by name."""
    known = list(_CLASSES)
    return sorted(names, key=lambda name: (known.index(name) if name in known else len(known), name))
