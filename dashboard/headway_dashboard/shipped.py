"""The bundled presets, shown where the server's own are not known."""

from __future__ import annotations

from headway_dashboard.admin import Preset, Presets
from headway_policies import bundled_presets


def shipped(running: tuple[str, str]) -> Presets:
    """The bundled presets; ``running`` is the name and revision that the metrics report."""
    name, revision = running
    listed = tuple(Preset(one.name, one.description, "bundled", one.settings()) for one in bundled_presets().values())
    return Presets(name, int(revision or 0), listed)
