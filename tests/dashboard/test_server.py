"""The process around the pages: its options, its command line, and plotly from the wheel."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import headway_dashboard
from headway_dashboard.__main__ import parser
from headway_dashboard.server import OPTIONS, SCRIPT, plotly_url, routes

CONFIG = Path(headway_dashboard.__file__).parents[1] / ".streamlit" / "config.toml"


def flat(table: dict[str, object], prefix: str = "") -> dict[str, object]:
    """A TOML table with dotted keys."""
    found: dict[str, object] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return found


@pytest.mark.skipif(not CONFIG.is_file(), reason="the dashboard was installed from the wheel")
def test_streamlit_run_has_the_same_options() -> None:
    """``streamlit run dashboard/app.py`` and ``headway dashboard`` cannot drift apart."""
    assert flat(tomllib.loads(CONFIG.read_text())) == OPTIONS


def test_nothing_else_stands_beside_the_script() -> None:
    """Streamlit puts the script's folder on sys.path, so nothing there may shadow a real module."""
    assert [path.name for path in SCRIPT.parent.iterdir() if path.name != "__pycache__"] == ["headway_page.py"]


def test_plotly_is_served_from_here() -> None:
    """The browser gets plotly.js from this process, and may keep it."""
    client = TestClient(Starlette(routes=routes()))
    answer = client.get(plotly_url())
    assert answer.status_code == 200
    assert "javascript" in answer.headers["content-type"]
    assert "immutable" in answer.headers["cache-control"]
    assert len(answer.content) > 1_000_000
    assert client.get("/healthz").json() == {"alive": True}


@pytest.mark.parametrize(
    "words",
    [
        ["--url", "not an address"],
        ["--url", "ftp://x"],
        ["--url", "http://me:secret@host"],
        ["--refresh-s", "0"],
        ["--token", "x"],
    ],
)
def test_bad_command_lines_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One line and exit status 2; a token is never taken from the command line."""
    with pytest.raises(SystemExit) as stopped:
        parser().parse_args(words)
    assert stopped.value.code == 2
    assert "error:" in capsys.readouterr().err
