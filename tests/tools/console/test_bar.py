"""The progress bar: on a terminal only, only for long operations, and removed at the end."""

from __future__ import annotations

import io

import pytest

from headway_tools.console import bar
from headway_tools.console.bar import Bar


class Terminal(io.StringIO):
    """A stream that reports itself as a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set."""
    now_s = [0.0]
    monkeypatch.setattr(bar.time, "monotonic", lambda: now_s[0])
    return now_s


def test_what_is_over_in_a_second_shows_nothing(clock: list[float]) -> None:
    """Not even a wiped line."""
    out = Terminal()
    with Bar(out) as shown:
        clock[0] = 0.9
        shown.show("x", 0.5)
    assert out.getvalue() == ""


def test_a_long_run_shows_how_far_it_is_and_leaves_an_empty_line(clock: list[float]) -> None:
    """Rewritten in place, not more than five times a second."""
    out = Terminal()
    with Bar(out) as shown:
        for clock[0], ratio in ((1.5, 0.5), (1.6, 0.55), (1.8, 0.6)):
            shown.show("balanced", ratio)
        assert "50%  balanced" in out.getvalue()
        assert "55%" not in out.getvalue()
        assert "60%" in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[K")
    assert "\n" not in out.getvalue()


def test_elsewhere_than_on_a_terminal_nothing_is_shown(clock: list[float]) -> None:
    """A log file stays clean."""
    out = io.StringIO()
    with Bar(out) as shown:
        clock[0] = 100.0
        shown.show("x", 0.5)
    assert out.getvalue() == ""
