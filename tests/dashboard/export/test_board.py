"""The Grafana board: its structure, and that every query is one that Prometheus understands."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from running_server import ROOT

from headway_dashboard.export.board import board, board_text
from headway_dashboard.export.pages import ALERTS_PAGE, pages

FILE = ROOT / "deploy" / "grafana" / "headway.json"
VARIABLE = re.compile(r"\$\{?(\w+)\}?")
OF_GRAFANA = {"__rate_interval", "__all"}


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """The board as a reader of its text sees it."""
    found: dict[str, Any] = json.loads(board_text())
    return found


def queries(shown: dict[str, Any]) -> list[str]:
    """Every query of every panel, mark and variable."""
    asked = [target["expr"] for panel in shown["panels"] for target in panel.get("targets", ())]
    return asked + [mark["expr"] for mark in shown["annotations"]["list"]]


def test_the_committed_board_is_what_the_command_writes() -> None:
    """A panel that changes and is not exported again fails here."""
    assert FILE.read_text(encoding="utf-8") == board_text(), "run: headway export grafana --output " + str(FILE)


def test_every_panel_has_a_number_of_its_own(shown: dict[str, Any]) -> None:
    """Grafana keys panels by it."""
    numbers = [panel["id"] for panel in shown["panels"]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert shown["uid"] == "headway"


def test_bars_beside_a_line_stand_on_each_other(shown: dict[str, Any]) -> None:
    """As the page draws them: a sum is read from their height."""
    (found,) = [panel for panel in shown["panels"] if panel["title"].startswith("Memory of the engine")]
    drawn = [{one["id"]: one["value"] for one in part["properties"]} for part in found["fieldConfig"]["overrides"]]
    bars = [properties for properties in drawn if properties.get("custom.drawStyle") == "bars"]
    assert bars
    assert all(properties["custom.stacking"]["mode"] == "normal" for properties in bars)
    assert any("custom.stacking" not in properties for properties in drawn)


def test_what_alerts_compare_is_drawn_of_each_server(shown: dict[str, Any]) -> None:
    """A sum over two servers is no share of one's memory."""
    titles = {panel.title for page in pages() if page.title == ALERTS_PAGE for panel in page.panels}
    found = [target for panel in shown["panels"] if panel["title"] in titles for target in panel["targets"]]
    assert len(found) == 4
    assert all("by (instance" in target["expr"] for target in found)
    assert all("{{instance}}" in target["legendFormat"] for target in found)


def test_the_first_revision_is_a_start_and_no_change(shown: dict[str, Any]) -> None:
    """A server that starts again has put no other preset in force."""
    (mark,) = [one for one in shown["annotations"]["list"] if one["name"] == "Preset changes"]
    assert 'revision!="1"' in mark["expr"]


def test_no_panel_covers_another_and_all_are_on_the_grid(shown: dict[str, Any]) -> None:
    """Grafana would push the lower one down, and the rows apart."""
    places = [panel["gridPos"] for panel in shown["panels"]]
    for place in places:
        assert place["x"] >= 0
        assert place["x"] + place["w"] <= 24
    for one, other in itertools.combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        under = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or under, (one, other)


def test_there_is_a_row_for_each_page_with_its_panels_under_it(shown: dict[str, Any]) -> None:
    """In the order of the pages."""
    found: dict[str, list[str]] = {}
    for panel in sorted(shown["panels"], key=lambda one: (one["gridPos"]["y"], one["gridPos"]["x"])):
        if panel["type"] == "row":
            title = panel["title"]
            found[title] = []
        else:
            found[title].append(panel["title"])
    expected = {
        page.title: [*(tile.label for tile in page.tiles), *(panel.title for panel in page.panels)] for page in pages()
    }
    assert list(found.items()) == list(expected.items())


def test_every_query_has_a_name_and_the_chosen_data_source(shown: dict[str, Any]) -> None:
    """A board that was imported reads the Prometheus that its reader chose."""
    for panel in shown["panels"]:
        targets = panel.get("targets", [])
        names = [target["refId"] for target in targets]
        assert names == [chr(ord("A") + at) for at in range(len(names))]
        assert all(target["datasource"]["uid"] == "${datasource}" for target in targets)
        assert bool(targets) is (panel["type"] != "row")


def test_every_variable_that_is_used_is_one_of_the_board(shown: dict[str, Any]) -> None:
    """Data source, job, instance and class, and all of them are used."""
    declared = {one["name"] for one in shown["templating"]["list"]}
    used = set(VARIABLE.findall(board_text())) - OF_GRAFANA
    assert used == declared == {"datasource", "job", "instance", "class"}


def test_every_query_is_limited_to_the_chosen_servers(shown: dict[str, Any]) -> None:
    """Each selector of each query, so that no part of a quotient is of other servers than the rest."""
    for text in queries(shown):
        selectors = re.findall(r"\{[^{}]*\}", text.replace("{{", "").replace("}}", ""))
        assert selectors, text
        assert all('job=~"$job"' in selector and 'instance=~"$instance"' in selector for selector in selectors), text


def test_thresholds_begin_without_a_value_and_rise(shown: dict[str, Any]) -> None:
    """Grafana ignores steps that are out of order."""
    for panel in shown["panels"]:
        if panel["type"] == "row":
            continue
        first, *others = [one["value"] for one in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
        assert first is None
        assert others == sorted(others)


def test_marks_are_of_presets_servers_and_engines(shown: dict[str, Any]) -> None:
    """A preset change and a start of a server stand at the times that the server reports."""
    changes, starts, away, restarts = shown["annotations"]["list"]
    assert (changes["useValueForTime"], changes["name"]) == ("on", "Preset changes")
    assert "headway_last_change_timestamp_seconds" in changes["expr"]
    assert starts["useValueForTime"] == "on"
    assert starts["expr"].startswith("1000 * process_start_time_seconds{")
    assert away["expr"].endswith("} == 0")
    assert "headway_engine_deaths_total" in restarts["expr"]


def test_it_is_made_anew_each_time() -> None:
    """A caller may change what it gets."""
    board()["panels"].clear()
    assert board()["panels"]


@pytest.mark.slow
def test_promtool_parses_every_query(shown: dict[str, Any], tmp_path: Path) -> None:
    """Each query as a recording rule, with Grafana's variables filled in."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    filled = [
        text.replace("$__rate_interval", "1m").replace("$job", ".*").replace("$instance", ".*").replace("$class", ".*")
        for text in queries(shown)
    ]
    rules = [{"record": f"query:{at}", "expr": text} for at, text in enumerate(filled)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    command = [promtool, "check", "rules", "rules.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout
