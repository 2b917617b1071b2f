"""The presets of a server, and the source of each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from engines import ReportingEngine
from small_presets import small_preset

import headway
from headway.errors import UnknownPresetError
from headway.operator.presets import BUNDLED, GIVEN, MAX_FILES, PresetCatalogue
from headway_policies import Load, PresetError, bundled_presets

TEXT = """
name = "{name}"
default_class = "{only}"
batching = {{ seats = {seats}, window_ms = 0 }}
queue = {{ max_waiting = 9 }}
classes.{only} = {{ priority = 1, max_waiting = 9, queue_timeout_s = 1, total_timeout_s = 2 }}
"""


def write(folder: Path, file: str, name: str, *, seats: int = 3, only: str = "all") -> Path:
    path = folder / file
    path.write_text(TEXT.format(name=name, seats=seats, only=only), encoding="utf-8")
    return path


def test_the_bundled_presets_are_always_there() -> None:
    """Without a folder the catalogue is the bundle."""
    assert [(one.preset.name, one.source) for one in PresetCatalogue()] == [
        (name, BUNDLED) for name in bundled_presets()
    ]


def test_a_folder_adds_its_presets_and_may_replace_a_bundled_one(tmp_path: Path) -> None:
    """Every .toml of the folder is listed under its own name; other files are ignored."""
    mine = write(tmp_path, "b.toml", "mine")
    better = write(tmp_path, "a.toml", "balanced", seats=5)
    (tmp_path / "notes.txt").write_text("not a preset")
    catalogue = PresetCatalogue(tmp_path)
    sources = {one.preset.name: one.source for one in catalogue}
    assert sources == dict.fromkeys(bundled_presets(), BUNDLED) | {"balanced": str(better), "mine": str(mine)}
    assert catalogue.get("balanced").batching.seats == 5


def test_one_bad_file_in_the_folder_stops_the_start(tmp_path: Path) -> None:
    """The operator gets the error of a bad preset at the start, in one line, and not at the first switch."""
    write(tmp_path, "good.toml", "good")
    bad = write(tmp_path, "worse.toml", "worse", seats=0)
    with pytest.raises(PresetError, match=r"batching\.seats") as caught:
        PresetCatalogue(tmp_path)
    assert str(caught.value).startswith(f"{bad}: ")


def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    """A wrong HEADWAY_PRESET_DIR is an error, not an empty list."""
    with pytest.raises(PresetError, match="does not exist or is not a folder"):
        PresetCatalogue(tmp_path / "nowhere")


def test_two_files_may_not_have_one_name(tmp_path: Path) -> None:
    """The target of a switch would be ambiguous. Both files are named."""
    first = write(tmp_path, "a.toml", "mine")
    second = write(tmp_path, "b.toml", "mine")
    with pytest.raises(PresetError) as caught:
        PresetCatalogue(tmp_path)
    assert str(caught.value) == f"{second}: name: 'mine' is already the name of {first}"


def test_a_name_or_a_file_leads_to_a_preset(tmp_path: Path) -> None:
    """``--preset`` takes both; a file is listed from then on, and may be read again after a change."""
    catalogue = PresetCatalogue()
    path = write(tmp_path, "mine.toml", "mine")
    assert catalogue.resolve("latency").name == "latency"
    assert catalogue.resolve(str(path)) is catalogue.get("mine")
    write(tmp_path, "mine.toml", "mine", seats=7)
    assert catalogue.resolve(str(path)).batching.seats == 7


def test_an_unknown_name_lists_the_known_ones() -> None:
    """The answer to a typing error is the list of names, and never the whole of a long nonsense."""
    with pytest.raises(UnknownPresetError, match="serial, dynamic-latency, latency, interactive") as caught:
        PresetCatalogue().get("x" * 10_000)
    assert len(str(caught.value)) < 250


def test_a_preset_made_by_a_program_is_listed_too() -> None:
    """A Preset given to wrap can be switched back to by its name."""
    catalogue = PresetCatalogue()
    preset = catalogue.include(small_preset(name="own"))
    assert catalogue.get("own") is preset
    assert [one.source for one in catalogue][-1] == GIVEN


def test_classes_and_seats_are_those_of_all_presets(tmp_path: Path) -> None:
    """Label values, and the seats that presets state, are known before any switch."""
    write(tmp_path, "mine.toml", "mine", seats=99, only="gold")
    catalogue = PresetCatalogue(tmp_path)
    assert catalogue.class_names() == ["realtime", "normal", "batch", "gold"]
    assert catalogue.stated_seats() == 99
    assert catalogue.largest().preset.name == "mine"


def test_a_top_of_an_adaptive_limit_is_stated_and_the_engines_own_is_not(tmp_path: Path) -> None:
    """A preset that follows the engine states what it starts with."""
    for name, limit in (("wide", '{ policy = "model", max_seats = 200 }'), ("open", '{ policy = "model" }')):
        text = f'name = "{name}"\nextends = "balanced"\nbatching = {{ seats = 150 }}\nlimit = {limit}\n'
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    assert PresetCatalogue(tmp_path).stated_seats() == 200
    (tmp_path / "wide.toml").unlink()
    assert PresetCatalogue(tmp_path).stated_seats() == 150


def test_a_file_of_the_folder_may_extend_another_of_it(tmp_path: Path) -> None:
    """Relative to itself, whatever the working folder."""
    write(tmp_path, "base.toml", "base", seats=7)
    (tmp_path / "heir.toml").write_text('name = "heir"\nextends = "./base.toml"\n', encoding="utf-8")
    assert PresetCatalogue(tmp_path).get("heir").batching.seats == 7


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """A pipe in the folder of presets would hold the start for ever."""
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(PresetError, match=r"pipe\.toml: cannot be read: not a regular file"):
        PresetCatalogue(tmp_path)


def test_a_folder_has_a_bounded_number_of_presets(tmp_path: Path) -> None:
    """All presets are read at the start, and listed in every answer about presets."""
    for number in range(MAX_FILES):
        write(tmp_path, f"{number}.toml", f"p{number}")
    assert len(list(PresetCatalogue(tmp_path))) == MAX_FILES + len(bundled_presets())
    write(tmp_path, "one-more.toml", "one-more")
    with pytest.raises(PresetError, match="has 101 presets, more than 100"):
        PresetCatalogue(tmp_path)


def test_seats_that_the_engine_has_no_use_for_are_a_warning() -> None:
    """Beyond the knee of its curve, 40 seats, fitted from intervals that hardly differ; an adaptive limit has none."""
    control: headway.Control = headway.wrap(ReportingEngine(), preset="latency").headway
    gate, offline = control.gateway.gate, bundled_presets()["offline"]
    gate.now_s = lambda: now_s
    now_s = 0.0
    assert control.warnings(offline) == []
    for running in [2, 4, 6, 8] * 200:
        now_s += 0.02 + 0.001 * running
        gate.observe(Load(running, 0, 0.1, 0.02 + 0.001 * running, kv_capacity_tokens=1000))
    found = control.warnings(offline)
    assert len(found) == 1
    assert found[0].startswith("batching.seats: beyond ")
    assert control.warnings(bundled_presets()["interactive"]) == []
    assert control.status().limit.knee_seats == pytest.approx(40, abs=8)
