"""The objects that garbage collections leave out."""

from __future__ import annotations

import gc

import pytest

from headway_dashboard import long_lived


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of the collector, which are not carried out: the process of the tests keeps its own."""
    found: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: found.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: found.append("freeze"))
    return found


def test_the_first_drawn_page_of_a_server_freezes_once(calls: list[str]) -> None:
    """Garbage of the start is collected before, so that it is not kept for ever."""
    long_lived.freeze_when_drawn()
    assert calls == []
    long_lived.drawn()
    long_lived.drawn()
    assert calls == ["collect", "freeze"]


def test_a_page_without_a_server_freezes_nothing(calls: list[str]) -> None:
    """As in a test of a page."""
    long_lived.drawn()
    assert calls == []
