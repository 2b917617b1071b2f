"""Server-sent events, parsed from pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.fallback.sse import EventTooLargeError, SseEvents


@given(
    parts=st.lists(st.sampled_from([b"data: a", b"event: x", b": ping", b"data: [DONE]"]), min_size=1),
    end=st.sampled_from([b"\n", b"\r\n"]),
    cuts=st.lists(st.integers(1, 9)),
)
def test_nothing_is_lost_and_only_whole_events_are_handed_on(parts: list[bytes], end: bytes, cuts: list[int]) -> None:
    """All pieces together are the text; each ends with an empty line."""
    text = b"".join(part + end + end for part in parts)
    events, found, at = SseEvents(1000), [], 0
    for length in [*cuts, len(text)]:
        found.append(events.add(text[at : at + length]))
        at += length
    assert b"".join(found) == text
    assert all(not piece or piece.endswith(end + end) for piece in found)
    assert events.done == (b"data: [DONE]" in parts)


def test_the_beginning_of_an_event_is_kept_back() -> None:
    """Also when it never ends."""
    events = SseEvents(1000)
    assert events.add(b"data: 1\n\ndata: 2\n") == b"data: 1\n\n"
    assert events.add(b"") == b""
    assert events.add(b"\n") == b"data: 2\n\n"


def test_the_last_word_in_a_text_is_not_the_end() -> None:
    """Only a line of its own ends a stream."""
    events = SseEvents(1000)
    events.add(b'data: {"text": "data: [DONE]"}\n\n')
    assert not events.done


def test_an_event_has_a_bound() -> None:
    """Whole ones do not count against it."""
    events = SseEvents(10)
    events.add(b"data: 1\n\n" * 100)
    events.add(b"data: 4567")
    with pytest.raises(EventTooLargeError):
        events.add(b"8")
