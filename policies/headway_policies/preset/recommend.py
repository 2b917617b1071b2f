"""Advice: the preset that fits given needs.

A decision tree (is latency what counts? is throughput? else a balance of both), extended by offline work and by a
required time between tokens. ``serial`` and the ``dynamic`` ones are never advised: on an engine that refills its
running batch both are slower, and are chosen for another reason. Advice for a running server is in
``headway_policies.diagnosis``.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_policies.preset.toml_text import toml_text


@dataclass(frozen=True, slots=True)
class Needs:
    """The operator's needs: low latency (a user waits for each answer), throughput, offline work (all requests are
    known at the start), and the largest time between tokens, if one is required.
    """

    latency: bool = False
    throughput: bool = False
    offline: bool = False
    inter_token_slo_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A preset, and the reason for it."""

    preset: str
    because: str


def recommend(needs: Needs) -> Recommendation:
    """The bundled preset for these needs."""
    return Recommendation(*_choose(needs))


def _choose(needs: Needs) -> tuple[str, str]:
    slo_ms = needs.inter_token_slo_ms
    if slo_ms is not None and not needs.offline:
        return (
            "interactive",
            f"a time between tokens is required: the limit follows the load to keep {toml_text(slo_ms)} ms",
        )
    if needs.latency:
        return (
            "latency",
            "a user waits for each answer: few seats at the start and short objectives keep each answer fast",
        )
    if needs.offline:
        return "offline", "all requests are known at the start and no user waits for an answer: full batches"
    if needs.throughput:
        return (
            "throughput",
            "tokens per second matter most: as many seats as give more of them, at the price of slower answers",
        )
    return "balanced", "neither latency nor throughput comes first: a balance of both"
