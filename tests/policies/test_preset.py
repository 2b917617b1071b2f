"""Preset files: what they mean, and what their authors are told when they are wrong."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_presets import small_preset, terms

from headway_policies import Change, Preset, PresetError, bundled_presets, changes, load_preset, parse_preset

LATENCY = (resources.files("headway_policies") / "presets" / "latency.toml").read_text(encoding="utf-8")
BUNDLED = {"latency": (8, 10), "balanced": (32, 50), "throughput": (64, 100)}


def test_the_bundled_presets_are_the_three_of_the_mission_fewest_seats_first() -> None:
    """latency, balanced and throughput ship, in this order, each under its own name."""
    assert list(bundled_presets()) == list(BUNDLED)
    assert all(one.name == name for name, one in bundled_presets().items())


@pytest.mark.parametrize(("name", "seats", "window_ms"), [(name, *values) for name, values in BUNDLED.items()])
def test_a_bundled_preset_has_exactly_the_seats_and_window_of_the_mission(
    name: str, seats: int, window_ms: float
) -> None:
    """The batch size and the window of each preset are as promised."""
    batching = bundled_presets()[name].batching
    assert (batching.strategy, batching.seats, batching.window_ms) == ("continuous", seats, window_ms)


@pytest.mark.parametrize("preset", bundled_presets().values(), ids=BUNDLED)
def test_a_bundled_preset_leaves_each_class_its_own_room(preset: Preset) -> None:
    """The total bound holds every class at its own bound, so a flood of batch work takes no realtime place."""
    assert sum(one.max_waiting for one in preset.classes.values()) <= preset.queue.max_waiting
    assert preset.by_urgency() == ["realtime", "normal", "batch"]
    assert preset.default_class == "normal"
    assert preset.queue.max_waiting == 10_000


BAD_FILES: dict[str, tuple[str, str, list[str]]] = {
    "a number as text": ("seats = 8", 'seats = "8"', ["batching.seats", "integer"]),
    "a truth value as a number": ("seats = 8", "seats = true", ["batching.seats", "integer"]),
    "a fraction of a seat": ("seats = 8", "seats = 8.5", ["batching.seats", "integer"]),
    "no seat": ("seats = 8", "seats = 0", ["batching.seats", "greater than or equal to 1"]),
    "too many seats": ("seats = 8", "seats = 1_000_000", ["batching.seats", "less than or equal to 65536"]),
    "a missing key": ("seats = 8\n", "", ["batching.seats", "missing"]),
    "an unknown key": ("seats = 8", "seats = 8\nchairs = 8", ["batching.chairs", "seats, strategy, window_ms"]),
    "an unknown section": ("[queue]", "[queues]", ["queues", "unknown key", "batching, classes", "queue: missing"]),
    "an unknown key of a class": (
        "priority = 3",
        "priority = 3\nweight = 2",
        ["classes.realtime.weight", "max_waiting, priority, queue_timeout_s, service_tiers, total_timeout_s"],
    ),
    "an unknown strategy": ('"continuous"', '"magic"', ["batching.strategy", "'continuous'"]),
    "no number": ("window_ms = 10", "window_ms = nan", ["batching.window_ms", "60000"]),
    "no end": ("queue_timeout_s = 5", "queue_timeout_s = inf", ["classes.realtime.queue_timeout_s", "86400"]),
    "a negative time": ("queue_timeout_s = 5", "queue_timeout_s = -1", ["queue_timeout_s", "greater than 0"]),
    "text for a list": ('["flex"]', '"flex"', ["classes.batch.service_tiers", "list"]),
    "numbers for names": ('["flex"]', "[1]", ["classes.batch.service_tiers.0", "string"]),
    "a tier of two classes": ('["flex"]', '["auto"]', ["classes", "one class only"]),
    "one priority for two classes": ("priority = 1\n", "priority = 2\n", ["classes", "priority of its own"]),
    "a default that is no class": (
        'default_class = "normal"',
        'default_class = "gold"',
        ["default_class", "'gold'", "batch, normal, realtime"],
    ),
    "a name with capitals": ('name = "latency"', 'name = "Latency"', ["name", "[a-z0-9]"]),
    "a class name that no header can carry": ("[classes.batch]", '[classes."b\\r\\nx"]', ["classes", "[a-z0-9]"]),
    "a key of two lines": ("seats = 8", '"a\\nb" = 1\nseats = 8', ["batching.a b", "unknown key"]),
    "a missing section": ("[queue]\nmax_waiting = 10000\n", "", ["queue", "missing"]),
    "no TOML": ("seats = 8", "seats 8", ["not valid TOML", "line"]),
    "a doubled key": ("seats = 8", "seats = 8\nseats = 9", ["not valid TOML"]),
}


@pytest.mark.parametrize(("good", "bad", "told"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_refused_in_one_line_that_names_file_key_and_what_is_allowed(
    good: str, bad: str, told: list[str], tmp_path: Path
) -> None:
    """The author reads one line: which file, which key, what may stand there."""
    assert good in LATENCY
    path = tmp_path / "mine.toml"
    path.write_text(LATENCY.replace(good, bad), encoding="utf-8")
    with pytest.raises(PresetError) as caught:
        load_preset(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    for word in told:
        assert word in line


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "cannot be read: No such file"),
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "cannot be read: not UTF-8 text"),
    ],
    ids=["absent", "a folder", "binary"],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_line(make: object, why: str, tmp_path: Path) -> None:
    """A missing, wrong or binary file gives the same kind of error as a wrong setting."""
    path = tmp_path / "mine.toml"
    assert callable(make)
    make(path)
    with pytest.raises(PresetError, match=why) as caught:
        load_preset(path)
    assert str(caught.value).startswith(f"{path}: ")


@given(st.text(max_size=200))
def test_no_text_makes_the_reader_fail_otherwise(text: str) -> None:
    """Whatever the file says, the answer is a preset or a PresetError of one line."""
    told = ""
    try:
        told = f"mine.toml: {parse_preset(text, 'mine.toml').name}"
    except PresetError as error:
        told = str(error)
    assert told.startswith("mine.toml: ")
    assert len(told.splitlines()) == 1


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=4))
def test_a_seat_count_is_a_whole_number_in_range_or_refused(value: object) -> None:
    """Nothing is turned into a number that is not one."""
    table = small_preset().model_dump()
    table["batching"]["seats"] = value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65_536:
        assert Preset.model_validate(table).batching.seats == value
    else:
        with pytest.raises(ValueError, match=r"batching\.seats"):
            Preset.model_validate(table)


@pytest.mark.parametrize("preset", bundled_presets().values(), ids=BUNDLED)
def test_settings_are_flat_and_in_the_order_of_the_file(preset: Preset) -> None:
    """Every setting stands under its dotted key, name and description apart."""
    settings = preset.settings()
    assert list(settings)[:4] == ["default_class", "batching.strategy", "batching.seats", "batching.window_ms"]
    assert settings["classes.realtime.priority"] == 3
    assert settings["classes.batch.service_tiers"] == ["flex"]
    assert not {"name", "description"} & set(settings)
    assert not any(isinstance(value, dict) for value in settings.values())


def test_changes_list_what_differs_and_nothing_else() -> None:
    """From latency to throughput exactly the seats and the window change."""
    presets = bundled_presets()
    assert changes(presets["latency"], presets["throughput"]) == [
        Change("batching.seats", 8, 64),
        Change("batching.window_ms", 10.0, 100.0),
    ]
    assert changes(presets["latency"], presets["latency"]) == []


def test_changes_show_a_setting_that_one_side_does_not_have() -> None:
    """A class that appears or goes away shows as None on the other side."""
    one = small_preset(classes={"only": terms(1)})
    two = small_preset(classes={"only": terms(1), "more": terms(2)})
    added = changes(one, two)
    assert {change.setting.rpartition(".")[0] for change in added} == {"classes.more"}
    assert all(change.before is None and change.after is not None for change in added)
    assert changes(two, one) == [Change(change.setting, change.after, None) for change in added]


@pytest.mark.parametrize(
    ("tier", "name"),
    [
        ("priority", "realtime"),
        ("fast", "realtime"),
        ("auto", "normal"),
        ("default", "normal"),
        ("flex", "batch"),
        ("platinum", None),
        ("", None),
    ],
)
def test_a_service_tier_stands_for_a_class_or_for_none(tier: str, name: str | None) -> None:
    """OpenAI's and Anthropic's words lead to our classes; an unknown word to no class."""
    assert bundled_presets()["balanced"].class_for_tier(tier) == name


@pytest.mark.parametrize(
    ("priority", "name"),
    [(99, "realtime"), (3, "realtime"), (2, "normal"), (1, "batch"), (0, "batch"), (-5, "batch")],
)
def test_a_larger_number_is_more_urgent(priority: int, name: str) -> None:
    """A number falls into the highest class not above it; below all of them, into the lowest."""
    assert bundled_presets()["balanced"].class_for_priority(priority) == name
