"""The last warnings of the log: what is kept, in which order, and what is not."""

from __future__ import annotations

import logging

from headway.logs.last_warnings import MAX_CHARS, MOST, LastWarnings


def written(*lines: tuple[int, str]) -> list[tuple[str, int]]:
    """What is kept of these lines, the newest first, with how often each was written."""
    handler, logger = LastWarnings(), logging.Logger("headway.tried")
    logger.addHandler(handler)
    for level, text in lines:
        logger.log(level, text)
    return [(line.message, line.times) for line in handler.newest_first()]


def test_warnings_and_errors_are_kept_and_equal_ones_count_once() -> None:
    """The one that was written last stands first."""
    lines = (logging.WARNING, "a"), (logging.INFO, "b"), (logging.ERROR, "c"), (logging.WARNING, "a")
    assert written(*lines) == [("a", 2), ("c", 1)]


def test_a_flood_keeps_the_newest() -> None:
    """As many as there is room for."""
    found = written(*((logging.WARNING, str(number)) for number in range(3 * MOST)))
    assert [text for text, _ in found] == [str(number) for number in reversed(range(2 * MOST, 3 * MOST))]


def test_a_line_is_one_line_of_bounded_length() -> None:
    """Whatever was logged."""
    (line,) = written((logging.WARNING, "a\nb " + "c" * 10_000))
    assert line[0].startswith("a b c")
    assert len(line[0]) == MAX_CHARS + 1


def test_arguments_that_do_not_fit_do_no_harm() -> None:
    """The line is left out: logging itself reports it."""
    handler = LastWarnings()
    handler.handle(logging.LogRecord("headway", logging.ERROR, __file__, 1, "%d", ("x",), None))
    assert handler.newest_first() == []
