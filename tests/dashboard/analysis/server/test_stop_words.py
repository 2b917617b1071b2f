"""What operators have ordered of a server, in words."""

from __future__ import annotations

import pytest

from headway.api.schema import OperatorLimit, OperatorStop
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.server.stop_words import admission_words, end_words, operator_limit_words


@pytest.mark.parametrize(
    ("left_s", "words"),
    [
        (None, "Paused by ann, 1\u00a0min ago: disk."),
        (21.3, "Paused by ann, 1\u00a0min ago: disk. The command ends by itself in 21\u00a0s."),
    ],
    ids=["until a resume", "with an end"],
)
def test_a_pause_is_said_with_its_author_and_its_end(left_s: float | None, words: str) -> None:
    """An end is only said where there is one."""
    stop = OperatorStop(state="paused", since="", for_s=60.0, actor="ann", reason="disk", left_s=left_s)
    status = Status(known=True, admission="paused", blocks=("operator",), stopped=stop)
    assert admission_words(status) == words


def test_a_server_that_nobody_has_stopped_has_no_end() -> None:
    """And no limit that was ordered."""
    assert (end_words(Status()), operator_limit_words(Status())) == ("", "")


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (
            OperatorLimit(seats=12, left_s=24.6, actor="ann", reason="headway share"),
            "The limit is set by ann (headway share): 12 seats in place of the preset's, for another 25\u00a0s.",
        ),
        (
            OperatorLimit(seats=12),
            "The limit is set: 12 seats in place of the preset's, until the next switch.",
        ),
    ],
    ids=["for a time, by somebody", "by an older server"],
)
def test_an_ordered_limit_is_said_with_its_author_and_its_end(order: OperatorLimit, words: str) -> None:
    """Without an author where the server does not tell one."""
    assert operator_limit_words(Status(operator_limit=order)) == words
