"""Presets: the three of the bundle, what may be written in a file, and what a switch changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway_policies import PresetError, bundled_presets, changes, load_preset, parse_preset

GOOD = """
name = "mine"
default_class = "only"
[batching]
seats = 3
window_ms = 0.5
[queue]
max_waiting = 9
[classes.only]
priority = 1
max_waiting = 5
queue_timeout_s = 1
total_timeout_s = 2
"""


@pytest.mark.parametrize(
    ("name", "seats", "window_ms"), [("latency", 8, 10), ("balanced", 32, 50), ("throughput", 64, 100)]
)
def test_the_three_presets_are_as_promised(name: str, seats: int, window_ms: float) -> None:
    """Seats, window, classes in their order, and the bound of 10,000 waiting."""
    preset = bundled_presets()[name]
    assert (preset.batching.seats, preset.batching.window_ms) == (seats, window_ms)
    assert preset.by_urgency() == ["realtime", "normal", "batch"]
    assert preset.default_class == "normal"
    assert preset.queue.max_waiting == 10_000


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("seats = 3", "seats = 0", ["batching.seats", "greater than or equal to 1"]),
        ("seats = 3", "seats = true", ["batching.seats"]),
        ("seats = 3", "setas = 3", ["batching.seats: missing", "batching.setas: unknown key", "seats, strategy"]),
        ("seats = 3", 'seats = 3\nstrategy = "magic"', ["batching.strategy", "'continuous'"]),
        ("max_waiting = 9", 'max_waiting = "many"', ["queue.max_waiting", "integer"]),
        ("priority = 1", "priority = 1.5", ["classes.only.priority"]),
        ("queue_timeout_s = 1", "queue_timeout_s = -1", ["classes.only.queue_timeout_s", "greater than 0"]),
        ("total_timeout_s = 2", "total_timeout_s = inf", ["classes.only.total_timeout_s"]),
        ('default_class = "only"', 'default_class = "other"', ["default_class", "'other'", "only"]),
        ('name = "mine"', 'name = "My Preset"', ["name"]),
        ('name = "mine"', "name = ", ["not valid TOML", "line 2"]),
        (
            "[classes.only]",
            "[classes.twin]\npriority = 1\nmax_waiting = 1\nqueue_timeout_s = 1\ntotal_timeout_s = 1\n[classes.only]",
            ["classes", "a priority of its own"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_preset_is_one_line_that_names_file_key_and_what_is_allowed(old: str, new: str, says: list[str]) -> None:
    """Whatever is wrong, the complaint is one line with the file's name and the key."""
    assert old in GOOD
    with pytest.raises(PresetError) as caught:
        parse_preset(GOOD.replace(old, new, 1), "mine.toml")
    text = str(caught.value)
    assert text.startswith("mine.toml: ")
    assert "\n" not in text
    for part in says:
        assert part in text


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"], ids=["missing", "binary"])
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    """A missing or binary file is named in one line."""
    path = tmp_path / "some.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PresetError, match=r"some\.toml: cannot be read: .+"):
        load_preset(path)


def test_changes_lists_what_differs_and_nothing_else() -> None:
    """Between two of the bundled presets only seats and window differ; a new class shows as added."""
    presets = bundled_presets()
    found = [(one.setting, one.before, one.after) for one in changes(presets["latency"], presets["throughput"])]
    assert found == [("batching.seats", 8, 64), ("batching.window_ms", 10.0, 100.0)]
    assert changes(presets["latency"], presets["latency"]) == []
    mine = parse_preset(GOOD, "mine.toml")
    added = {one.setting: one.before for one in changes(presets["latency"], mine)}
    assert added["classes.only.priority"] is None


@pytest.mark.parametrize(
    ("priority", "expected"),
    [(99, "realtime"), (3, "realtime"), (2, "normal"), (1, "batch"), (0, "batch"), (-5, "batch")],
)
def test_a_larger_priority_is_more_urgent(priority: int, expected: str) -> None:
    """A number means the highest class not above it, and the lowest class when it is below all."""
    assert bundled_presets()["balanced"].class_for_priority(priority) == expected
