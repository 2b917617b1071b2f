"""Answers of the admin API that every stand-in of a server makes in the same way."""

from __future__ import annotations

from http import HTTPStatus

from headway.api import schema
from headway_policies import Preset


def preset_entry(preset: Preset) -> schema.PresetEntry:
    """A bundled preset in the list of all."""
    return schema.PresetEntry(
        name=preset.name, description=preset.description, source="bundled", settings=preset.settings()
    )


def current_preset(preset: Preset, revision: int) -> schema.CurrentPreset:
    """The preset in force."""
    return schema.CurrentPreset(
        name=preset.name, revision=revision, description=preset.description, settings=preset.settings()
    )


def problem(status: int, detail: str) -> schema.Problem:
    """A refusal."""
    return schema.Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
