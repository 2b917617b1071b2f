"""``headway dashboard`` up to the moment it becomes the dashboard's process."""

from __future__ import annotations

import socket
import sys

import pytest

from headway.cli import dashboard, main


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record instead of replacing this process."""
    calls: list[list[str]] = []
    monkeypatch.setattr(dashboard.os, "execv", lambda program, words: calls.append(words))
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
    assert "vllm-headway[dashboard]" in err
