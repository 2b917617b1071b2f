"""Presets: all settings that are switched together, read from TOML and validated as a whole.

Errors name the key, the line and the value; ``lint`` warns of settings without effect.
"""

from headway_policies.preset.errors import Issue, one_line, shown
from headway_policies.preset.fixed_limit import with_fixed_limit
from headway_policies.preset.inert import effective, without_effect
from headway_policies.preset.lint import lint
from headway_policies.preset.model import (
    Change,
    Preset,
    PresetError,
    Setting,
    bundled_presets,
    changes,
    differences,
    load_preset,
    parse_preset,
)
from headway_policies.preset.parts import LACKS, Ability, Place, no_effect
from headway_policies.preset.recommend import Needs, Recommendation, recommend
from headway_policies.preset.rungs_used import usable_rungs
from headway_policies.preset.seat_bounds import SeatBounds, best_seats, typical_tokens
from headway_policies.preset.seat_words import moves, reach, seat_words
from headway_policies.preset.several_instances import for_instances
from headway_policies.preset.toml_text import toml_text

__all__ = [
    "LACKS",
    "Ability",
    "Change",
    "Issue",
    "Needs",
    "Place",
    "Preset",
    "PresetError",
    "Recommendation",
    "SeatBounds",
    "Setting",
    "best_seats",
    "bundled_presets",
    "changes",
    "differences",
    "effective",
    "for_instances",
    "lint",
    "load_preset",
    "moves",
    "no_effect",
    "one_line",
    "parse_preset",
    "reach",
    "recommend",
    "seat_words",
    "shown",
    "toml_text",
    "typical_tokens",
    "usable_rungs",
    "with_fixed_limit",
    "without_effect",
]
