"""Presets that extend others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies import Preset, PresetError, bundled_presets, changes, load_preset, parse_preset
from headway_policies.preset.errors import MAX_ISSUES
from headway_policies.preset.extends import MAX_FILE_BYTES, MAX_LINE_CHARS, MAX_PARENTS, merged


def write(folder: Path, file: str, text: str) -> Path:
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def differing(preset: Preset) -> set[str]:
    return {one.setting for one in changes(bundled_presets()["balanced"], preset)}


def test_a_file_changes_what_it_names_and_keeps_the_rest() -> None:
    """Tables are merged key by key, lists replaced."""
    text = """
        name = "mine"
        extends = "balanced"
        batching.seats = 48
        classes.normal = { service_tiers = ["default"], share = 0.2 }
    """
    preset = parse_preset(text, "mine.toml")
    assert differing(preset) == {"batching.seats", "classes.normal.share", "classes.normal.service_tiers"}
    assert preset.classes["normal"].service_tiers == ("default",)


def test_false_drops_a_table() -> None:
    """A class that is not wanted goes; a section goes back to its defaults."""
    text = 'name = "mine"\nextends = "interactive"\nclasses.batch = false\nlimit = false\n'
    preset = parse_preset(text, "mine.toml")
    assert list(preset.classes) == ["realtime", "normal"]
    assert preset.limit.policy == "fixed"


def test_false_where_there_is_no_table_is_a_value() -> None:
    """`false` still means no for a setting that is yes or no."""
    assert parse_preset('name = "mine"\nextends = "balanced"\nqueue.evict = false\n', "x").queue.evict is False


@pytest.mark.parametrize(
    ("stated", "burst_s"),
    [("share = 0.2", 30.0), ("ttft_slo_s = 3", None), ("ttft_slo_s = 3\nburst_s = 5", 5.0), ("burst_s = 5", 5.0)],
)
def test_a_burst_is_not_inherited_for_another_objective(stated: str, burst_s: float | None) -> None:
    """An objective without a burst has the one that follows from it, whatever the parent states."""
    text = f'name = "mine"\nextends = "balanced"\n[classes.normal]\n{stated}\n'
    assert parse_preset(text, "mine.toml").classes["normal"].burst_s == burst_s


def test_a_preset_has_its_own_name_and_description() -> None:
    """Neither is taken over."""
    assert parse_preset('name = "mine"\nextends = "balanced"\n', "mine.toml").description == ""
    with pytest.raises(PresetError, match=r"mine\.toml \(extends bundled balanced\): name: missing"):
        parse_preset('extends = "balanced"\n', "mine.toml")


def test_a_missing_name_is_none_of_the_extended_preset() -> None:
    """The parent's line is no place to look at, and what to write is said."""
    with pytest.raises(PresetError) as caught:
        parse_preset('extends = "balanced"\n', "mine.toml")
    (issue,) = caught.value.issues
    assert (issue.file, issue.line) == (None, None)
    assert str(issue) == 'name: missing; each file has its own, as in name = "mine"'


def test_a_file_with_a_few_settings_is_told_to_extend_a_preset() -> None:
    """Unless it extends one, or all it lacks is its name."""
    advice = 'extends: not given; extends = "balanced" takes what is missing from that preset'
    for text, told in {'name = "mine"\nbatching.seats = 3\n': True, 'extends = "balanced"\n': False}.items():
        with pytest.raises(PresetError) as caught:
            parse_preset(text, "mine.toml")
        assert (advice in str(caught.value)) == told


def test_a_file_is_looked_for_beside_the_one_that_extends_it(tmp_path: Path) -> None:
    """Through several folders; the nearest word counts, and only the result has to be a whole preset."""
    write(tmp_path, "common.toml", 'extends = "balanced"\nqueue.max_waiting = 77\nbatching.seats = 5\n')
    write(tmp_path, "site/base.toml", 'extends = "../common.toml"\nbatching.seats = 6\n')
    path = write(tmp_path, "site/mine.toml", 'name = "mine"\nextends = "base.toml"\nbatching.window_ms = 7\n')
    preset = load_preset(path)
    assert (preset.queue.max_waiting, preset.batching.seats, preset.batching.window_ms) == (77, 6, 7)


@pytest.mark.parametrize(
    ("parent", "message"),
    [
        (
            '"balance"',
            "there is no bundled preset 'balance' "
            "(balanced, dynamic, dynamic-latency, dynamic-throughput, "
            "interactive, latency, offline, serial, throughput)",
        ),
        ('"gone.toml"', "gone.toml: cannot be read: No such file or directory"),
        ('"./"', "cannot be read: Is a directory"),
        ('""', "must be the name of a bundled preset, or a file"),
        ("[1]", "must be the name of a bundled preset, or a file"),
    ],
)
def test_a_parent_that_is_not_there_is_one_line_that_names_the_file(parent: str, message: str, tmp_path: Path) -> None:
    """The author reads which file extends what, and which names there are."""
    path = write(tmp_path, "mine.toml", f'name = "mine"\nextends = {parent}\n')
    with pytest.raises(PresetError) as caught:
        load_preset(path)
    assert str(caught.value).startswith(f"{path}: extends: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("files", [("a",), ("a", "b"), ("a", "b", "c")], ids=len)
def test_a_circle_is_shown(files: tuple[str, ...], tmp_path: Path) -> None:
    """Files that extend each other are an error that shows the way round, not an endless loop."""
    for name, parent in zip(files, (*files[1:], files[0]), strict=True):
        write(tmp_path, f"{name}.toml", f'name = "{name}"\nextends = "./{parent}.toml"\n')
    with pytest.raises(PresetError, match="extends: circular") as caught:
        load_preset(tmp_path / "a.toml")
    assert str(caught.value).count(" -> ") == len(files)


def test_a_parent_that_is_no_toml_is_named_itself(tmp_path: Path) -> None:
    """The error is where the parent is."""
    write(tmp_path, "base.toml", "seats 8")
    path = write(tmp_path, "mine.toml", 'extends = "base.toml"\n')
    with pytest.raises(PresetError, match=r"base\.toml: not valid TOML"):
        load_preset(path)


def test_a_wrong_key_of_a_parent_names_both_files(tmp_path: Path) -> None:
    """The author sees that the key may stand in what the file extends."""
    write(tmp_path, "base.toml", 'extends = "balanced"\nbatching.seats = "8"\n')
    path = write(tmp_path, "mine.toml", 'name = "mine"\nextends = "base.toml"\n')
    with pytest.raises(PresetError, match=r"batching\.seats: must be a valid integer") as caught:
        load_preset(path)
    assert str(caught.value).startswith(f"{path} (extends {tmp_path / 'base.toml'}, bundled balanced): ")


tables = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers() | st.lists(st.integers(), max_size=2)),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | st.integers(), max_size=3),
    max_leaves=6,
)


@given(tables, tables)
def test_the_child_has_the_last_word(parent: dict[str, object], child: dict[str, object]) -> None:
    """Every value of the child is in the result; every key of the parent is, too; neither is changed."""
    before = repr((parent, child))
    result = merged(parent, child)
    assert set(result) == set(parent) | set(child)
    assert merged(result, child) == result
    assert all(result[key] == value for key, value in child.items() if not isinstance(value, dict))
    assert all(result[key] == parent[key] for key in set(parent) - set(child))
    assert repr((parent, child)) == before


WHOLE = 'name = "mine"\nextends = "balanced"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (WHOLE + "#\n" * (MAX_FILE_BYTES // 2), f"larger than {MAX_FILE_BYTES} bytes"),
        (WHOLE + "#" * (MAX_LINE_CHARS + 1), f"line 3: longer than {MAX_LINE_CHARS} characters"),
        (WHOLE + "x = " + "1" * 900 + "_1" * 40 + "\n", "x: unknown key"),
        ("[a]\n" + "x = " + "1" * 5000, "line 2: longer"),
    ],
    ids=["a large file", "a long line", "a long number", "a number Python refuses"],
)
def test_a_file_and_its_lines_have_bounds(text: str, why: str, tmp_path: Path) -> None:
    """One line that says which; none of it is parsed."""
    with pytest.raises(PresetError, match=why) as caught:
        load_preset(write(tmp_path, "mine.toml", text))
    assert len(str(caught.value)) < 1000


def test_what_just_fits_is_read(tmp_path: Path) -> None:
    """Neither bound is one too low."""
    rest = MAX_FILE_BYTES - len(WHOLE)
    comments = ("#" * MAX_LINE_CHARS + "\n") * (rest // (MAX_LINE_CHARS + 1))
    text = WHOLE + comments + "#" * (rest - len(comments))
    assert len(text) == MAX_FILE_BYTES
    assert load_preset(write(tmp_path, "mine.toml", text)).name == "mine"


def test_a_chain_of_parents_has_an_end(tmp_path: Path) -> None:
    """Eight presets one after another, and no more."""
    for number in range(MAX_PARENTS + 1):
        parent = "balanced" if number == 0 else f"./{number - 1}.toml"
        write(tmp_path, f"{number}.toml", f'name = "mine"\nextends = "{parent}"\n')
    assert load_preset(tmp_path / f"{MAX_PARENTS - 1}.toml").name == "mine"
    with pytest.raises(PresetError, match=f"extends: a chain of more than {MAX_PARENTS} presets"):
        load_preset(tmp_path / f"{MAX_PARENTS}.toml")


def test_tables_nested_without_end_are_one_line(tmp_path: Path) -> None:
    """Also where two files nest alike, so that they have to be merged all the way down."""
    deep = f"[{'a.' * 490}a]\n{'b.' * 490}b.{{}} = 1\n"
    write(tmp_path, "parent.toml", deep.format("x"))
    child = write(tmp_path, "child.toml", 'name = "mine"\nextends = "./parent.toml"\n' + deep.format("y"))
    with pytest.raises(PresetError, match="nested too deeply"):
        load_preset(child)


@pytest.mark.parametrize("name", ["pipe.toml", "mine.toml"])
def test_a_pipe_is_refused_as_a_preset_and_as_a_parent(name: str, tmp_path: Path) -> None:
    """The pipe is not waited for."""
    os.mkfifo(tmp_path / "pipe.toml")
    write(tmp_path, "mine.toml", 'name = "mine"\nextends = "./pipe.toml"\n')
    with pytest.raises(PresetError, match=r"pipe\.toml: cannot be read: not a regular file"):
        load_preset(tmp_path / name)


def test_of_very_many_mistakes_the_first_are_reported() -> None:
    """A line is for a person."""
    text = WHOLE + "".join(f"key{number} = 1\n" for number in range(1000)) + "k" * 900 + " = 1\n"
    with pytest.raises(PresetError) as caught:
        parse_preset(text, "mine.toml")
    assert str(caught.value).count("unknown key") == MAX_ISSUES
    assert str(caught.value).endswith(f"; and {1001 - MAX_ISSUES} more")
    with pytest.raises(PresetError) as caught:
        parse_preset(WHOLE + "k" * 900 + " = 1\n", "mine.toml")
    assert len(str(caught.value)) < 500
