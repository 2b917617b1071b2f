"""The settings of log lines."""

from __future__ import annotations

import pytest

from headway.errors import HeadwayError
from headway.logs import LogSettings


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, LogSettings()),
        ({"HEADWAY_LOG_CONTENT": "", "HEADWAY_LOG_FORMAT": ""}, LogSettings()),
        ({"HEADWAY_LOG_CONTENT": "0", "HEADWAY_LOG_FORMAT": "text"}, LogSettings()),
        ({"HEADWAY_LOG_CONTENT": "1", "HEADWAY_LOG_FORMAT": "json"}, LogSettings(content=True, json=True)),
    ],
    ids=["unset", "empty", "usual", "both"],
)
def test_the_environment_says_what_and_how(environment: dict[str, str], expected: LogSettings) -> None:
    """Without a word of the operator content is hidden and lines are text."""
    assert LogSettings.from_environment(environment) == expected


@pytest.mark.parametrize(("name", "value"), [("HEADWAY_LOG_CONTENT", "yes"), ("HEADWAY_LOG_FORMAT", "JSON\n")])
def test_an_unknown_word_is_an_error_of_one_line(name: str, value: str) -> None:
    """It names the variable; nothing is guessed where content may be shown."""
    with pytest.raises(HeadwayError, match=rf"^{name}: \w+ or \w+ is needed, not '.*'$"):
        LogSettings.from_environment({name: value})
