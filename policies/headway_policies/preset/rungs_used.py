"""The rungs of the fallback ladder that have an effect under a preset."""

from __future__ import annotations

from headway_policies.fallback import Rung
from headway_policies.preset.model import Preset


def usable_rungs(preset: Preset, *, fallback_model: bool) -> frozenset[Rung]:
    """The rungs that have an effect under a preset; ``fallback_model``: a target of diversion is configured."""
    classes, fallback = preset.classes.values(), preset.fallback
    barrier = preset.batching.strategy != "continuous"
    usable = {
        Rung.CAP: any(terms.fallback_max_tokens is not None for terms in classes),
        Rung.BYPASS: barrier and fallback.bypass_seats > 0 and any(terms.may_bypass for terms in classes),
        Rung.SHED: any(terms.sheddable for terms in classes),
        Rung.DIVERT: fallback_model and any(terms.may_divert for terms in classes),
        Rung.PAUSE: fallback.pause_on_errors,
    }
    return frozenset(rung for rung, changes in usable.items() if changes)
