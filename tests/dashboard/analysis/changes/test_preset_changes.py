"""What a switch changes: the columns of the table, and when each setting applies."""

from __future__ import annotations

import pytest

from headway.api.schema import Setting
from headway_dashboard.analysis.changes.preset_changes import (
    BY_SETTING,
    BY_TABLE,
    BY_TERM,
    applies_when,
    by_urgency,
    card_words,
    change_rows,
    seat_change,
)
from headway_policies import Preset, bundled_presets
from headway_policies.request import PriorityClass


def test_every_table_and_every_term_of_a_class_says_when_it_applies() -> None:
    """A setting that is added to the presets needs a line here, and none is left that no preset has."""
    assert {*BY_TABLE, "classes"} == {*Preset.model_fields} - {"name", "description"}
    assert {*BY_TERM} == {*PriorityClass.model_fields}
    for key in BY_SETTING:
        table, _, name = key.partition(".")
        kind = Preset.model_fields[table].annotation
        assert kind is not None
        assert name in kind.model_fields  # type: ignore[attr-defined]  # a table of a preset is a model


@pytest.mark.parametrize(
    ("setting", "before", "after", "ceiling", "said"),
    [
        ("batching.seats", 32, 64, 64, "now"),
        ("batching.seats", 32, 8, 64, "as requests finish"),
        ("batching.seats", 32, 128, 64, "capped at 64"),
        ("batching.seats", 32, 128, None, "now"),
        ("limit.max_seats", 64, 128, 64, "capped at 64"),
        ("limit.max_seats", 64, 32, 64, "as requests finish"),
        ("limit.policy", "fixed", "model", 64, "next step of the engine"),
        ("queue.max_waiting", 10, 20, 64, "new requests"),
        ("queue.shed_unreachable", True, False, 64, "now"),
        ("classes.batch.queue_timeout_s", 5.0, 9.0, 64, "new requests"),
        ("classes.batch.share", 0.1, 0.2, 64, "now"),
        ("warmup.prompt_tokens", [64], [128], 64, "next warm-up"),
        ("memory.caches", [], ["worker"], 64, "next memory check"),
        ("later.setting", 1, 2, 64, "not known here"),
    ],
)
def test_when_a_setting_applies(setting: str, before: Setting, after: Setting, ceiling: int | None, said: str) -> None:
    """More seats fill at once, fewer empty, and those above the engine's own are capped."""
    assert applies_when(setting, before, after, ceiling).startswith(said)


def test_the_table_has_only_what_has_an_effect_and_the_ceiling_beside_seats() -> None:
    """A window that no strategy uses is not a change; only seats have a ceiling."""
    presets = bundled_presets()
    rows = change_rows(presets["balanced"].settings(), presets["throughput"].settings(), 48)
    named = {row["Setting"]: row for row in rows}
    seats = named["batching.seats"]
    assert (seats["Now"], seats["After"], seats["Ceiling"]) == ("32", "64", "48")
    assert seats["Applies"].startswith("capped at 48")
    assert "batching.window_ms" not in named
    assert {row["Ceiling"] for row in rows if "seats" not in row["Setting"]} == {""}


def test_settings_are_written_exactly() -> None:
    """Two values that differ in the last digit look different, and an empty list is not taken for a missing one."""
    before = {"memory.gpu_usage_ratio": 0.98, "memory.caches": ["worker"], "batching.seats": 10_000}
    after = {"memory.gpu_usage_ratio": 0.985, "memory.caches": [], "batching.seats": 10_001}
    rows = {one["Setting"]: (one["Now"], one["After"]) for one in change_rows(before, after)}
    assert rows["memory.gpu_usage_ratio"] == ("0.98", "0.985")
    assert rows["memory.caches"] == ('["worker"]', "[]")
    assert rows["batching.seats"] == ("10000", "10001")


@pytest.mark.parametrize("name", list(bundled_presets()))
def test_a_card_names_a_window_only_where_the_strategy_waits_for_one(name: str) -> None:
    """Under continuous and static batching a window does nothing."""
    preset = bundled_presets()[name]
    assert ("window" in card_words(preset.settings())) is (preset.batching.strategy == "dynamic")


def test_a_card_says_that_its_seats_are_capped() -> None:
    """The engine was started with fewer."""
    settings: dict[str, Setting] = {"batching.seats": 64, "batching.strategy": "continuous"}
    assert card_words(settings, 32) == "seats: fixed at 64, capped at 32 · continuous batching"
    moving: dict[str, Setting] = {**settings, "limit.policy": "model"}
    assert card_words(moving, 256) == "seats: starts at 64, up to the engine's 256 · continuous batching"


def test_a_switch_says_how_far_the_limit_reaches_before_and_after() -> None:
    """Two presets with the same start may have another reach; nothing is said where both are the same."""
    fixed: dict[str, Setting] = {"batching.seats": 64}
    moving: dict[str, Setting] = {**fixed, "limit.policy": "model", "limit.max_seats": 128}
    assert seat_change(moving, fixed, 256) == "Seats: starts at 64, up to 128 → fixed at 64."
    assert seat_change(fixed, {**fixed, "queue.max_waiting": 5}, 256) == ""
    (row,) = change_rows(moving, {**moving, "batching.seats": 32}, 256)
    assert (row["Setting"], row["Applies"]) == ("batching.seats", "as requests finish; the limit starts there")


def test_classes_by_urgency() -> None:
    """As the preset itself orders them."""
    preset = bundled_presets()["balanced"]
    assert by_urgency(preset.settings()) == preset.by_urgency()
