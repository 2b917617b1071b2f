"""The seats of a preset in words: where its limit starts, and how far it reaches."""

from __future__ import annotations

from collections.abc import Mapping

from headway_policies.preset.model import Setting


def moves(settings: Mapping[str, Setting]) -> bool:
    """Whether a policy raises and lowers the limit; a limit bounded by memory alone never rises above its seats."""
    return settings.get("limit.policy", "fixed") != "fixed" and not settings.get("limit.shadow", False)


def reach(settings: Mapping[str, Setting], ceiling: int | None = None) -> int | None:
    """The bound on the limit's seats, on an engine with this ceiling; None where nothing known bounds it."""
    seats = settings.get("batching.seats")
    own = settings.get("limit.max_seats") if moves(settings) else seats
    bounds = [bound for bound in (own, ceiling) if isinstance(bound, int)]
    return min(bounds, default=None)


def seat_words(settings: Mapping[str, Setting], ceiling: int | None = None) -> str:
    """Start and reach: "starts at 32, up to the engine's 256", "fixed at 64". ``ceiling``: the most seats that the
    engine was started with, None: not known.
    """
    seats, most = settings.get("batching.seats"), reach(settings, ceiling)
    if not isinstance(seats, int):
        return "-"
    if not moves(settings):
        capped = f", capped at {ceiling}" if ceiling is not None and seats > ceiling else ""
        fewer = ", fewer while memory is short" if settings.get("limit.memory_aware") else ""
        shown = f"; {settings['limit.policy']} only shows its proposal" if settings.get("limit.shadow") else ""
        return f"fixed at {seats}{capped}{fewer}{shown}"
    if most is None:
        return f"starts at {seats}, up to the engine's ceiling"
    if most < seats:
        return f"starts at the engine's {most} ({seats} stated)"
    return f"starts at {seats}, up to {most}" if most != ceiling else f"starts at {seats}, up to the engine's {most}"
