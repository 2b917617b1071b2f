"""The arguments of a batcher as a preset of the desk.

The preset: dynamic batching with a barrier, a share of the seats for every priority, one bounded queue.
"""

from __future__ import annotations

from headway.batcher.arguments import number, shown, whole_number
from headway.errors import UnknownClassError
from headway_policies import Batching, Preset, PriorityClass
from headway_policies.limits import LimitSettings
from headway_policies.queueing import OrderSettings, QueueSettings

#: The names of three priorities, from 0 up: the classes of the bundled presets.
CLASS_NAMES = ("batch", "normal", "realtime")
MAX_TOKENS = 2**53  # more cannot be counted exactly in a float
_WHOLE = {
    "max_batch_size": (1, 65_536),
    "max_total_tokens": (1, MAX_TOKENS),
    "priority_classes": (1, 8),
    "max_size": (1, 1_000_000),
}
_LONGEST_MS = 60_000


def batch_preset(
    *,
    max_batch_size: int,
    max_wait_ms: float,
    urgent_wait_ms: float,
    max_total_tokens: int,
    priority_classes: int,
    max_size: int,
    latency_ms: float | None = None,
) -> Preset:
    """The preset of a batcher. Raises ValueError in one line that names the setting.

    The queue is bounded as a whole, so that requests of one priority can fill it and a higher one can evict them. A
    waiting request is never refused for a prediction: the cost of an item is not known here. A batch is a step of the
    engine for the limit, which follows ``latency_ms``.
    """
    settings = dict(locals())
    del settings["latency_ms"]
    for name, value in settings.items():
        if name in _WHOLE:
            whole_number(name, value, *_WHOLE[name])
        elif not 0 <= number(name, value) <= _LONGEST_MS:
            raise ValueError(f"{name} must be 0 to {_LONGEST_MS}, not {shown(value)}")
    if max_size < max_batch_size:
        raise ValueError(
            f"max_size must be at least max_batch_size: {max_size} requests are fewer than a batch of {max_batch_size}"
        )
    return Preset(
        name="batcher",
        default_class=class_name(0, priority_classes),
        batching=Batching(
            strategy="dynamic",
            seats=max_batch_size,
            window_ms=max_wait_ms,
            urgent_window_ms=urgent_wait_ms,
            max_total_tokens=max_total_tokens,
        ),
        limit=_limit(latency_ms, max_batch_size),
        ordering=OrderSettings(between="weighted", inside="fifo"),
        queue=QueueSettings(max_waiting=max_size, refuse_infeasible=False, shed_unreachable=False),
        classes={
            class_name(priority, priority_classes): PriorityClass(priority=priority, max_waiting=1_000_000)
            for priority in range(priority_classes)
        },
    )


def _limit(latency_ms: float | None, most: int) -> LimitSettings:
    """The whole batch always, or as many items as the latency allows. An idle hour changes nothing."""
    if latency_ms is None:
        return LimitSettings()
    if not 0 < number("latency_ms", latency_ms) <= _LONGEST_MS:
        raise ValueError(f"latency_ms must be above 0 and at most {_LONGEST_MS}, not {shown(latency_ms)}")
    return LimitSettings(policy="aimd", inter_token_slo_ms=float(latency_ms), max_seats=most, stale_after_s=3600)


def without_window(preset: Preset) -> Preset:
    """The same preset without a batch window."""
    batching = preset.batching.model_copy(update={"window_ms": 0.0})
    return preset.model_copy(update={"batching": batching})


def class_name(priority: int | str, priority_classes: int) -> str:
    """The class of a priority, 0 and up, or of its name; larger is more urgent. Raises UnknownClassError for any other.

    Nothing is clamped: a program that counts the other way round gets an error for its first request. Three priorities
    have names, too: ``CLASS_NAMES``.
    """
    whole_number("priority_classes", priority_classes, *_WHOLE["priority_classes"])
    if isinstance(priority, str) and priority_classes == len(CLASS_NAMES):
        if priority not in CLASS_NAMES:
            names = ", ".join(CLASS_NAMES)
            raise UnknownClassError(f"priority must be a whole number or one of {names}, not {shown(priority)}")
        priority = CLASS_NAMES.index(priority)
    try:
        rank = whole_number("priority", priority, 0, priority_classes - 1)
    except ValueError as error:
        raise UnknownClassError(f"{error}; larger is more urgent") from None
    return f"priority-{rank}"
