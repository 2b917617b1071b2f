"""A command of an operator that the browser reports twice: it is sent once, and the first answer stands."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

import pytest

from headway.api import AdminClient
from headway_dashboard.pages.control.command_form import carry_out
from headway_dashboard.settings import Settings


def test_a_press_that_arrives_twice_is_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser whose connection broke reports it again: the first answer stands. Another order is sent."""
    state: dict[str, object] = {}
    monkeypatch.setattr("headway_dashboard.pages.control.command_form.st.session_state", state)
    monkeypatch.setattr("headway_dashboard.pages.control.command_form.must_log_in", lambda: False)
    monkeypatch.setattr("headway_dashboard.pages.control.command_form.visitor_name", lambda: "")
    sent: list[int] = []

    def ask(client: AdminClient, reason: str, actor: str) -> str:
        sent.append(len(sent))
        return f"answer {len(sent)}"

    settings = Settings("http://127.0.0.1:1", token="t" * 32)
    assert carry_out(settings, "undo", ask, once=(1, 2))
    assert carry_out(settings, "undo", ask, once=(1, 2))
    assert (sent, state["undo_result"]) == ([0], ["success", "answer 1"])
    assert carry_out(settings, "undo", ask, once=(1, 3))
    assert carry_out(settings, "recycle", ask)
    assert carry_out(settings, "recycle", ask)
    assert len(sent) == 4
    assert carry_out(replace(settings, url="http://127.0.0.1:2"), "undo", ask, once=(1, 3))
    assert len(sent) == 5, "another server has the same revision"
    later_s = time.monotonic() + 60
    monkeypatch.setattr("headway_dashboard.pages.control.command_form.time.monotonic", lambda: later_s)
    assert carry_out(replace(settings, url="http://127.0.0.1:2"), "undo", ask, once=(1, 3))
    assert len(sent) == 6, "so has a server that was started anew"


class Interrupted(BaseException):
    """What Streamlit raises in a call-back when another message of the browser has come meanwhile."""


def test_a_second_report_of_a_press_that_comes_while_the_server_is_asked_sends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ends the first call at the next use of the state. The answer that the server gave stands."""
    sent: list[str] = []

    class State(dict[str, object]):
        def __setitem__(self, key: str, value: object) -> None:
            if sent:
                raise Interrupted
            super().__setitem__(key, value)

    state = State()
    monkeypatch.setattr("headway_dashboard.pages.control.command_form.st.session_state", state)
    monkeypatch.setattr("headway_dashboard.pages.control.command_form.must_log_in", lambda: False)
    monkeypatch.setattr("headway_dashboard.pages.control.command_form.visitor_name", lambda: "")

    def ask(client: AdminClient, reason: str, actor: str) -> str:
        sent.append("sent")
        return f"answer {len(sent)}"

    settings = Settings("http://127.0.0.1:1", token="t" * 32)
    for _ in range(2):
        with suppress(Interrupted):
            carry_out(settings, "recycle", ask, once=0)
    assert (sent, state["recycle_result"]) == (["sent"], ["success", "answer 1"])
