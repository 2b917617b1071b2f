"""What happens in the demo, and when: the load, the preset in force, and the restarts of the engine.

Functions of the time alone, so that two processes show the same at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from headway_policies import Preset, bundled_presets

#: Requests a second of each class under a light load.
RATES_PER_S: Mapping[str, float] = {"realtime": 0.7, "normal": 1.3, "batch": 0.6}
#: An overload of a minute every five minutes.
OVERLOAD_EVERY_S, OVERLOAD_FROM_S, OVERLOAD_S, OVERLOAD_FACTOR = 300.0, 120.0, 60.0, 4.0
#: Another preset every ten minutes, in this order.
SWITCH_EVERY_S = 600.0
PRESETS = ("balanced", "latency", "throughput")
#: The engine crashes every quarter of an hour, and is restarted.
CRASH_EVERY_S, CRASH_AT_S, RESTART_S = 900.0, 420.0, 25.0
#: The seats that the engine was started with.
CEILING = 64


def load_factor(time_s: float) -> float:
    """How much more than the light load arrives."""
    since_s = time_s % OVERLOAD_EVERY_S - OVERLOAD_FROM_S
    return OVERLOAD_FACTOR if 0 <= since_s < OVERLOAD_S else 1.0


def restarting(time_s: float) -> bool:
    """Whether the engine is being restarted."""
    return 0 <= time_s % CRASH_EVERY_S - CRASH_AT_S < RESTART_S


def crashes(time_s: float) -> int:
    """How many crashes there have been since the epoch."""
    return int((time_s - CRASH_AT_S) // CRASH_EVERY_S)


def switches(time_s: float) -> int:
    """How many preset switches there have been since the epoch."""
    return int(time_s // SWITCH_EVERY_S)


def preset_at(time_s: float) -> Preset:
    """The preset in force."""
    return _bundled()[PRESETS[switches(time_s) % len(PRESETS)]]


def switched_s(time_s: float) -> float:
    """When the preset in force was switched to."""
    return switches(time_s) * SWITCH_EVERY_S


@cache
def _bundled() -> Mapping[str, Preset]:
    return bundled_presets()
