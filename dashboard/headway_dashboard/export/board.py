"""The Grafana board: a row for each page, the variables that limit it, and marks of changes.

Marked are preset changes, the ends of engines, and servers that start or do not answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headway_dashboard.export.board_panel import chart_panel, tile_panel
from headway_dashboard.export.board_query import DATASOURCE, WINDOW
from headway_dashboard.export.pages import Page, pages

#: The dashboard schema of Grafana 12; later releases migrate it when they load the board.
SCHEMA = 41
UID = "headway"
_WIDTH, _TILE_WIDTH, _CHART_WIDTH = 24, 3, 12
_ROW_HEIGHT, _TILE_HEIGHT, _CHART_HEIGHT = 1, 4, 8
_SERVER = 'job=~"$job",instance=~"$instance"'


def board_text() -> str:
    """The board as the text of its file."""
    return json.dumps(board(), indent=2, ensure_ascii=False) + "\n"


def board() -> dict[str, Any]:
    """The board, ready to be imported or provisioned."""
    return {
        "uid": UID,
        "title": "Headway",
        "tags": ["headway", "vllm"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": _annotations()},
        "templating": {"list": _variables()},
        "panels": [{"id": number, **panel} for number, panel in enumerate(_panels(), 1)],
    }


def _panels() -> Iterator[dict[str, Any]]:
    top = 0
    for page in pages():
        for place, panel in _row(page):
            yield panel | {"gridPos": place | {"y": top + place["y"]}}
        top += _height(page)


def _row(page: Page) -> Iterator[tuple[dict[str, int], dict[str, Any]]]:
    """The row's own panels with their places, counted from its top."""
    yield _place(0, _WIDTH, _ROW_HEIGHT, 0), {"type": "row", "title": page.title, "collapsed": False, "panels": []}
    for at, tile in enumerate(page.tiles):
        yield _place(at, _TILE_WIDTH, _TILE_HEIGHT, _ROW_HEIGHT), tile_panel(tile)
    for at, panel in enumerate(page.panels):
        yield _place(at, _CHART_WIDTH, _CHART_HEIGHT, _ROW_HEIGHT + _tiles_height(page)), chart_panel(panel)


def _place(at: int, width: int, height: int, top: int) -> dict[str, int]:
    line, column = divmod(at, _WIDTH // width)
    return {"x": column * width, "y": top + line * height, "w": width, "h": height}


def _height(page: Page) -> int:
    return _ROW_HEIGHT + _tiles_height(page) + _lines(len(page.panels), _CHART_WIDTH) * _CHART_HEIGHT


def _tiles_height(page: Page) -> int:
    return _lines(len(page.tiles), _TILE_WIDTH) * _TILE_HEIGHT


def _lines(number: int, width: int) -> int:
    return -(-number // (_WIDTH // width))


def _variables() -> list[dict[str, Any]]:
    return [
        {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "refresh": 1},
        _values("job", "Job", "label_values(headway_build_info, job)"),
        _values("instance", "Server", 'label_values(headway_build_info{job=~"$job"}, instance)'),
        _values("class", "Class", f"label_values(headway_queue_depth{{{_SERVER}}}, class)"),
    ]


def _values(name: str, label: str, asked: str) -> dict[str, Any]:
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "definition": asked,
        "query": {"query": asked, "refId": f"Variable-{name}"},
        "multi": True,
        "includeAll": True,
        "current": {"text": ["All"], "value": ["$__all"]},
        "refresh": 2,
        "sort": 1,
    }


def _annotations() -> list[dict[str, Any]]:
    """Preset changes and starts are marked at the times that the server reports; Grafana reads milliseconds. The first
    revision comes with a start.
    """
    changed = (
        f"1000 * headway_last_change_timestamp_seconds{{{_SERVER}}}"
        f' * on (job, instance) group_left (preset, revision) headway_preset_info{{{_SERVER},revision!="1"}}'
    )
    ended = f"sum by (job, instance, cause) (increase(headway_engine_deaths_total{{{_SERVER}}}[{WINDOW}])) > 0"
    started, away = f"1000 * process_start_time_seconds{{{_SERVER}}}", f"up{{{_SERVER}}} == 0"
    return [
        _marks("Preset changes", changed, "Preset {{preset}}", "blue") | {"useValueForTime": "on"},
        _marks("Server starts", started, "Server started", "purple") | {"useValueForTime": "on"},
        _marks("Servers that do not answer", away, "No answer", "orange"),
        _marks("Engine restarts", ended, "Engine ended: {{cause}}", "red"),
    ]


def _marks(name: str, expression: str, title: str, colour: str) -> dict[str, Any]:
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": colour,
        "expr": expression,
        "titleFormat": title,
        "textFormat": "{{instance}}",
    }
