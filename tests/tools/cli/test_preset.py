"""``headway preset`` on this machine and against a stand-in of the admin API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from admin_stand_in import Stub

from headway_policies import bundled_presets
from headway_policies.preset import Setting, seat_words
from headway_tools.cli import main


def test_list_without_a_server_shows_the_bundled_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """No server and no token are needed. The seats are where the limit starts, and how far it reaches."""
    assert main(["preset", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    for name, preset in bundled_presets().items():
        assert f"  {preset.batching.strategy}" in lines[name]
    assert "starts at 32, up to the engine's ceiling" in lines["balanced"]
    assert "fixed at 64" in lines["offline"]


def test_list_shows_the_window_where_it_applies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a dynamic preset; under any other strategy the number would mean nothing."""
    text = 'name = "mine"\nextends = "latency"\n[batching]\nstrategy = "dynamic"\n'
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    assert main(["preset", "list", "--preset-dir", str(tmp_path)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "dynamic, 10 ms" in lines["mine"]
    assert " ms" not in lines["latency"]


def test_list_counts_the_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By option or by variable."""
    _copy("latency", tmp_path / "mine.toml", "mine")
    monkeypatch.setenv("HEADWAY_PRESET_DIR", str(tmp_path))
    assert main(["preset", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["current"] is None
    assert {one["name"]: one["source"] for one in listed["presets"]}["mine"] == str(tmp_path / "mine.toml")


def test_list_of_a_server_marks_the_one_in_force(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """With ``--url`` the server is asked."""
    assert main(["preset", "list", "--url", operator.url]) == 0
    (marked,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("*")]
    assert marked.split()[1] == "balanced"
    assert "starts at 32, up to the engine's 64" in marked


@pytest.mark.parametrize(
    ("limit", "ceiling", "words"),
    [
        ({}, 256, "fixed at 64"),
        ({}, 48, "fixed at 64, capped at 48"),
        ({"limit.memory_aware": True}, None, "fixed at 64, fewer while memory is short"),
        ({"limit.policy": "model"}, None, "starts at 64, up to the engine's ceiling"),
        ({"limit.policy": "knee"}, 256, "starts at 64, up to the engine's 256"),
        ({"limit.policy": "model", "limit.max_seats": 128}, 256, "starts at 64, up to 128"),
        ({"limit.policy": "model", "limit.max_seats": 512}, 256, "starts at 64, up to the engine's 256"),
        ({"limit.policy": "model"}, 48, "starts at the engine's 48 (64 stated)"),
        ({"limit.policy": "model", "limit.shadow": True}, 256, "fixed at 64; model only shows its proposal"),
    ],
)
def test_seats_are_said_as_start_and_reach(limit: dict[str, Setting], ceiling: int | None, words: str) -> None:
    """A limit that never moves is fixed; another one reaches its own bound, or the engine's."""
    assert seat_words({"batching.seats": 64, **limit}, ceiling) == words


@pytest.mark.parametrize("where", ["here", "server"])
def test_show_prints_every_setting(where: str, operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """The same on both sides."""
    url = ["--url", operator.url] if where == "server" else []
    assert main(["preset", "show", "latency", "--json", *url]) == 0
    assert json.loads(capsys.readouterr().out)["settings"] == bundled_presets()["latency"].settings()
    assert main(["preset", "show", "latency", *url]) == 0
    shown = capsys.readouterr().out
    assert "batching.seats" in shown
    assert f"seats: starts at 8, up to the engine's {64 if url else 'ceiling'}\n" in shown


def test_show_of_a_file_checks_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A valid file is shown, an invalid one refused in one line."""
    file = tmp_path / "mine.toml"
    _copy("latency", file, "mine")
    assert main(["preset", "show", str(file)]) == 0
    assert "mine" in capsys.readouterr().out
    file.write_text("name = 3")
    assert main(["preset", "show", str(file)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_show_of_an_unknown_name_lists_the_known(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Here and on the server."""
    for url in ([], ["--url", operator.url]):
        assert main(["preset", "show", "nope", *url]) == 2
        assert ", ".join(bundled_presets()) in capsys.readouterr().err


def test_use_switches_with_the_revision_it_saw_and_prints_what_changed(
    operator: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """One GET for the ETag, one PUT with it."""
    assert main(["preset", "use", "throughput", "--reason", "night", "--actor", "me"]) == 0
    out = capsys.readouterr().out
    assert "balanced -> throughput  (revision 4)" in out
    assert ["batching.seats", "32", "64"] in [line.split() for line in out.splitlines()]
    (_, _, _, nothing), (method, path, headers, body) = operator.seen
    assert nothing is None
    assert (method, path, headers["If-Match"]) == ("PUT", "/headway/v1/preset", '"3"')
    assert body == {"name": "throughput", "reason": "night", "actor": "me"}


def test_use_of_the_preset_in_force_says_that_nothing_changed(
    operator: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command is no error, and the revision is the one before."""
    assert main(["preset", "use", "balanced"]) == 0
    assert capsys.readouterr().out == "balanced is already in force, nothing changed  (revision 3)\n"
    assert main(["preset", "use", "balanced", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "name": "balanced",
        "revision": 3,
        "previous": "balanced",
        "changes": [],
        "engine_limit_confirmed": True,
        "warnings": [],
        "trial": None,
    }


def test_use_says_when_the_engine_has_not_confirmed(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """The preset is in force, its limit in the engine perhaps not yet."""
    for confirmed in (True, False):
        operator.confirmed = confirmed
        assert main(["preset", "use", "latency" if confirmed else "throughput"]) == 0
        assert ("not confirmed" in capsys.readouterr().out) is not confirmed


def test_use_prints_json(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """The server's answer, for scripts."""
    assert main(["preset", "use", "latency", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["previous"], answer["name"], answer["revision"]) == ("balanced", "latency", 4)


def test_use_after_a_switch_by_another_operator_changes_nothing(
    operator: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the preset now in force."""
    operator.overtaken_by = "latency"
    assert main(["preset", "use", "throughput"]) == 1
    err = capsys.readouterr().err
    assert "was changed meanwhile" in err
    assert "latency (revision 4)" in err
    assert operator.current == "latency"


def test_use_of_an_unknown_preset_lists_those_of_the_server(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Bad input: exit code 2."""
    assert main(["preset", "use", "nope"]) == 2
    assert f"known presets: {', '.join(bundled_presets())}" in capsys.readouterr().err


def test_use_names_the_closest_preset_and_where_files_come_from(
    operator: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder is that of the server's start."""
    assert main(["preset", "use", "latenci"]) == 2
    said = capsys.readouterr().err
    assert "; did you mean latency? (a server reads files at its start, from the folder of --preset-dir or" in said


def test_use_sends_no_file_and_says_how_the_server_gets_it(
    operator: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that works then has the name in the file; a file with errors is refused for them."""
    path = tmp_path / "a.toml"
    path.write_text('name = "night"\nextends = "balanced"\n')
    assert main(["preset", "use", str(path)]) == 2
    said = capsys.readouterr().err
    assert "--preset-dir" in said
    assert said.endswith("start the server again, and then: headway preset use night\n")
    path.write_text('extends = "balance"\n')
    assert main(["preset", "use", str(path)]) == 2
    assert "did you mean balanced?" in capsys.readouterr().err
    assert operator.seen == []


def test_use_shows_another_refusal_as_the_server_says_it(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """A 422 that is not about the name, and a 409."""
    operator.refuse_put = (422, "reason: at most 200 characters")
    assert main(["preset", "use", "latency"]) == 2
    assert capsys.readouterr().err == "headway: error: reason: at most 200 characters\n"
    operator.refuse_put = (409, "the server is draining")
    assert main(["preset", "use", "latency"]) == 1
    operator.refuse_put = (403, "a viewer may not switch")
    assert main(["preset", "use", "latency"]) == 4


def _copy(bundled: str, file: Path, name: str) -> None:
    """Write a bundled preset under another name."""
    import headway_policies

    source = Path(headway_policies.__file__).parent / "preset" / "bundled" / f"{bundled}.toml"
    file.write_text(source.read_text().replace(f'name = "{bundled}"', f'name = "{name}"'))
