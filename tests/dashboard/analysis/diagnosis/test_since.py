"""Since when there has been trouble."""

from __future__ import annotations

from datetime import UTC

import pytest
from readings import reading_of

from headway_dashboard.analysis.diagnosis.since import SEVERITY, trouble_since
from headway_dashboard.analysis.queries.model import Point, Series


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ([0, 0, 0, 0], ""),
        ([3, 3, 3, 1], ""),
        ([0, 0, 2, 3], "since 00:31"),
        ([3, 0, None, 4], "since 00:33"),
        ([2, 3, None, 3], "since 00:28 at least"),
        ([None, None, None, None], ""),
        ([], ""),
    ],
)
def test_the_trouble_of_now_has_its_beginning(line: list[Point], words: str) -> None:
    """Of degraded, overloaded and down together; what was before a better moment is another trouble."""
    found = reading_of({SEVERITY: line} if line else {}, step_s=100.0)
    assert trouble_since(found[SEVERITY], UTC) == words


def test_a_server_without_a_severity_has_no_known_trouble() -> None:
    """There are instants, and no line."""
    assert trouble_since(Series((1.0, 2.0), {}), UTC) == ""
