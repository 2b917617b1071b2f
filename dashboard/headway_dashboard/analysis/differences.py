"""The settings that differ between two presets."""

from __future__ import annotations

from collections.abc import Mapping

from headway.api.schema import Setting, SettingChange


def differences(before: Mapping[str, Setting], after: Mapping[str, Setting]) -> list[SettingChange]:
    """The settings that differ between two presets, in the order of the first, then those only the second has."""
    keys = [*before, *(key for key in after if key not in before)]
    return [
        SettingChange(setting=key, before=before.get(key), after=after.get(key))
        for key in keys
        if before.get(key) != after.get(key)
    ]
