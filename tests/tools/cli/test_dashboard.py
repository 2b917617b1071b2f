"""``headway dashboard`` up to the moment it becomes the dashboard's process."""

from __future__ import annotations

import socket
import sys

import pytest

from headway_tools.cli import dashboard, main
from headway_tools.console import install_command


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record instead of replacing this process."""
    calls: list[list[str]] = []
    monkeypatch.setattr(dashboard.os, "execve", lambda program, words, environment: calls.append(words))
    monkeypatch.setattr(dashboard, "missing_dashboard_packages", list)
    return calls


def test_it_becomes_the_dashboard_of_this_interpreter(became: list[list[str]]) -> None:
    """Same Python, same terminal; the address to read goes along."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    main(["dashboard", "--url", "http://h:1", "--port", port, "--prometheus-url", "http://p:2"])
    assert became == [
        [
            *(sys.executable, "-m", "headway_dashboard", "--url", "http://h:1", "--host", "127.0.0.1"),
            *("--port", port, "--prometheus-url", "http://p:2"),
        ]
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], []),
        (["--url", "http://a:1", "--url", "http://b:2"], ["--url", "http://a:1", "--url", "http://b:2"]),
    ],
    ids=["as the environment says", "two servers"],
)
def test_what_is_watched_goes_along(became: list[list[str]], words: list[str], expected: list[str]) -> None:
    """Without an option the dashboard reads HEADWAY_URL itself, which may be a list."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    main(["dashboard", *words, "--port", port])
    assert became == [[sys.executable, "-m", "headway_dashboard", *expected, "--host", "127.0.0.1", "--port", port]]


def test_a_demo_watches_the_server_that_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no other: neither of the environment's servers, Prometheus and tokens reaches the page or that server."""
    started: list[dict[str, str]] = []
    monkeypatch.setattr(dashboard.subprocess, "Popen", lambda *_, env, **__: started.append(env))
    named = {"HEADWAY_URL": "http://a:1", "HEADWAY_VIEWER_TOKEN": "v" * 40, "HEADWAY_PROMETHEUS_URL": "http://p:2"}
    found = dashboard.of_simulation(named | {"HEADWAY_REFRESH_S": "5", "PATH": "/bin"})
    assert found.keys() == {"HEADWAY_URL", "HEADWAY_ADMIN_TOKEN", "HEADWAY_REFRESH_S", "PATH"}
    assert found["HEADWAY_URL"].startswith("http://127.0.0.1:")
    assert started == [{"PATH": "/bin", "HEADWAY_ADMIN_TOKEN": found["HEADWAY_ADMIN_TOKEN"]}]


def test_a_demo_has_no_other_server(became: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    """Both at once is a mistake, and nothing starts."""
    assert main(["dashboard", "--demo", "--url", "http://a:1"]) == 2
    assert "not allowed with" in capsys.readouterr().err
    assert became == []


def test_a_taken_port_is_exit_code_two(became: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    """Before Streamlit prints its own page of text."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert main(["dashboard", "--port", str(port)]) == 2
    assert f"port {port} is in use" in capsys.readouterr().err
    assert became == []


def test_missing_packages_are_named_with_the_way_to_install_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The dashboard is an extra."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "streamlit" else object())
    assert main(["dashboard"]) == 2
    err = capsys.readouterr().err
    assert "needs streamlit;" in err
    assert f"; install it with: {install_command('dashboard')}" in err
