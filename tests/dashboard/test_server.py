"""The process around the pages: its options, its command line, and plotly from the wheel."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from dashboard_process import dashboard_process
from starlette.applications import Starlette
from starlette.testclient import TestClient

import headway_dashboard
from headway_dashboard.__main__ import check_servers, environment_of, parser
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
    assert plotly_url().startswith("./assets/")  # beside every page, below any prefix
    assert client.get(f"/a/prefix/{plotly_url()}").status_code == 200
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
        ["--url", "http://a:1,ftp://b:1"],
        ["--url", ","],
        ["--prometheus-url", "http://a:1,http://b:1"],
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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["--url", "http://a:1/"], {"HEADWAY_URL": "http://a:1"}),
        (["--url", "http://a:1", "--url", "http://b:2"], {"HEADWAY_URL": "http://a:1,http://b:2"}),
        (["--url", "http://a:1/, http://b:2"], {"HEADWAY_URL": "http://a:1,http://b:2"}),
        (["--prometheus-url", "http://p:9", "--refresh-s", "3"],
         {"HEADWAY_PROMETHEUS_URL": "http://p:9", "HEADWAY_REFRESH_S": "3.0"}),
    ],
    ids=["nothing", "one server", "two servers", "two in a list", "the others"],
)  # fmt: skip
def test_options_reach_the_pages_through_the_environment(words: list[str], expected: dict[str, str]) -> None:
    """An option that is not given is left to the environment."""
    assert environment_of(parser().parse_args(words)) == expected


@pytest.mark.parametrize("text", ["localhost:8000", "http://a:1,ftp://b", "http://me:secret@host"])
def test_a_bad_server_in_the_environment_is_refused_as_an_option_is(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything listens; good ones and none pass."""
    with pytest.raises(SystemExit) as stopped:
        check_servers(parser(), {"HEADWAY_URL": text})
    assert stopped.value.code == 2
    assert "HEADWAY_URL: " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        check_servers(parser(), {"HEADWAY_URL": ",".join(f"http://a:{port}" for port in range(1, 34))})
    assert "33 servers are more than the 32" in capsys.readouterr().err
    check_servers(parser(), {"HEADWAY_URL": ",".join(f"http://a:{port}" for port in range(1, 33))})
    check_servers(parser(), {"HEADWAY_URL": "http://a:1, https://b"})
    check_servers(parser(), {})


def test_the_start_asks_for_no_restart(tmp_path: Path) -> None:
    """Nothing is printed that an operator would have to act on."""
    log = tmp_path / "dashboard.log"
    with dashboard_process("http://127.0.0.1:9", log):
        assert "restart" not in log.read_text(encoding="utf-8")
