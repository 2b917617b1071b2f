"""Conformance suite for batching windows.

Pseudo-random, hostile histories: arrivals all at once and after a long pause, batches of zero duration or an hour, of
constant or random size, first tokens early and late. Checked after every step: a window is between 0 and its longest,
the same on a second call, and never delays a batch only because time has passed. Not checked: whether a window is any
good, and the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from headway_policies.batching import Gathered, Window
from headway_policies.batching.window import AdaptiveWindow

_STEPS = 200
_LONGEST_S = (0.0, 1e-6, 0.01, 0.2, 60.0)
_PAUSES_S = (0.0, 0.0, 1e-6, 0.003, 0.05, 1.0, 40_000.0)
_BATCHES_S = (0.0, 0.001, 0.2, 5.0, 3600.0)


def check_window(make_window: Callable[[float], Window], seeds: Iterable[int] = range(20)) -> None:
    """Raise AssertionError unless the windows ``make_window(longest_s)`` makes fulfil ``Window``."""
    for seed in seeds:
        for longest_s in _LONGEST_S:
            _run_window(make_window(longest_s), longest_s, seed)


def _run_window(window: Window, longest_s: float, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - repeatable, not secret
    now_s = opened_s = random.choice((0.0, 1e6))
    pauses_s = random.sample(_PAUSES_S, 3)
    for step in range(_STEPS):
        where = f"seed {seed}, step {step}, longest window {longest_s:g} s"
        now_s += random.choice(pauses_s)
        if random.random() < 0.6:
            window.arrived(random.choice((1, 1, 7, 65_536)), now_s)
        elif isinstance(window, AdaptiveWindow) and random.random() < 0.3:
            window.first_token(random.choice((0.0, 0.5, 0.9, 1.0, 500.0)))
        else:
            window.batch_done(random.choice((1, 8, 8, 65_536)), random.choice(_BATCHES_S), now_s)
            opened_s = now_s
        seats = random.choice((0, 1, 5, 64))
        busy = random.choice((None, 0.0, 0.5, 1.0))
        gathered = Gathered(seats, 64, opened_s, full=seats == 64, gpu_busy_ratio=busy)
        _check_window_now(window, longest_s, gathered, now_s, where)


def _check_window_now(window: Window, longest_s: float, gathered: Gathered, now_s: float, where: str) -> None:
    length_s = window.length_s(gathered, now_s)
    _expect(0 <= length_s <= longest_s, f"{where}: the window is {length_s} s")
    again_s = window.length_s(gathered, now_s)
    _expect(again_s == length_s, f"{where}: on a second call it is {again_s} s, not {length_s} s")
    for later_s in (1e-6, 0.1, 1000.0):
        later_length_s = window.length_s(gathered, now_s + later_s)
        _expect(later_length_s <= length_s, f"{where}: {later_s:g} s later, with no event, it has grown")


def _expect(kept: bool, issue: str) -> None:
    """Raise AssertionError unless ``kept``."""
    if not kept:
        raise AssertionError(issue)
