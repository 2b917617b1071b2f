"""The presets that come with Headway, for a page that the server does not show its own."""

from __future__ import annotations

from headway.api import PresetEntry, PresetList
from headway.api.schema import PresetInForce
from headway_policies import bundled_presets


def shipped(running: tuple[str, str]) -> PresetList:
    """The bundled presets; ``running`` is the name and revision that the metrics report."""
    name, revision = running
    listed = [
        PresetEntry(
            name=preset.name, description=preset.description, source="bundled", settings=dict(preset.settings())
        )
        for preset in bundled_presets().values()
    ]
    return PresetList(current=PresetInForce(name=name, revision=int(revision or 0)), presets=listed)
