"""The pace of streams as steps of an engine: on simulated streams, whose steps are known."""

from __future__ import annotations

import random

import pytest

from headway.router.instances.stream_pace import WINDOW_S, Steps, Stream, StreamPace


def played(step_s: float, number: int, steps: int, *, hold: int = 0) -> list[Steps]:
    """The windows of so many streams with an event in each step; ``hold`` of them have one in every third alone."""
    pace, found, noise = StreamPace(), list[Steps](), random.Random(7)
    streams = [pace.began(100) for _ in range(number)]
    for step in range(steps):
        for at, stream in enumerate(streams):
            if at < hold and step % 3:
                continue
            closed = pace.came(stream, 1, step * step_s + noise.uniform(0, 0.1 * step_s))
            found += [] if closed is None else [closed]
    return found


@pytest.mark.parametrize("step_s", [0.004, 0.02, 0.3])
@pytest.mark.parametrize("number", [1, 2, 64])
def test_the_steps_are_those_of_the_engine(step_s: float, number: int) -> None:
    """Whether many steps make a window or one: their time, and how many there were."""
    found = played(step_s, number, 100)
    assert sum(one.count for one in found) == pytest.approx(100, abs=max(10, WINDOW_S / step_s))
    took_s = sum(one.count * one.step_s for one in found) / sum(one.count for one in found)
    assert took_s == pytest.approx(step_s, rel=0.05)
    assert sum(one.first_tokens for one in found) == number


def test_streams_that_hold_text_back_do_not_slow_the_others() -> None:
    """Their server reads a tool call before it sends it."""
    assert played(0.02, 9, 200, hold=4)[-1].step_s == pytest.approx(0.02, rel=0.1)


def test_prompts_count_in_the_steps_of_their_first_tokens() -> None:
    """As a mean over the steps of the window."""
    found = played(0.05, 4, 20)
    assert sum(one.count * one.prefill_tokens for one in found) == pytest.approx(400, rel=0.25)


def test_a_client_that_reads_late_tells_nothing_of_the_engine() -> None:
    """Events kept for it come at once, in pieces of many tokens; it counts again once the stream has waited."""
    pace = StreamPace()
    stream, found, now_s = pace.began(10), list[Steps | None](), 1.0
    for _ in range(5):
        found.append(pace.came(stream, 1, now_s := now_s + 0.02))
    now_s += 30.0
    stream.taken(now_s)
    for _ in range(50):
        found.append(pace.came(stream, 500, now_s := now_s + 0.00002))
        stream.taken(now_s)
    for _ in range(40):
        found.append(pace.came(stream, 1, now_s := now_s + 0.02))
        stream.taken(now_s + 0.0001)
    steps = [one for one in found if one is not None]
    assert len(steps) > 5
    assert {round(step.step_s, 3) for step in steps} == {0.02}


def test_events_of_one_token_are_one_step() -> None:
    """The role and the first text, the last text and the end: streams of few tokens are no faster than long ones."""
    pace, found = StreamPace(), list[Steps | None]()
    for request in range(40):
        stream = pace.began(10)
        for step in range(3):
            for event in range(2):
                found.append(pace.came(stream, 1, 0.06 * request + 0.02 * step + 0.0001 * event))
        pace.ended(stream)
    steps = [one for one in found if one is not None]
    assert all(step.step_s == pytest.approx(0.02, rel=0.02) for step in steps)


def test_several_tokens_at_once_are_as_many_steps() -> None:
    """A busy event loop reads them together."""
    pace = StreamPace()
    stream = pace.began(10)
    found = [
        pace.came(stream, events, now_s) for events, now_s in ((1, 1.0), (4, 1.08), (4, 1.16), (4, 1.24), (4, 1.32))
    ]
    assert [one.step_s for one in found if one is not None] == [pytest.approx(0.02)] * 3


def test_a_stream_that_has_ended_is_forgotten() -> None:
    """The rest of its window is forgotten, too; and a stream that never began is no trouble."""
    pace = StreamPace()
    gone, never = pace.began(10), Stream(5)
    for now_s in (1.0, 1.5):
        assert pace.came(gone, 1, now_s) is None
    pace.ended(gone)
    pace.ended(never)
    stream = pace.began(10)
    found = [pace.came(stream, 1, now_s) for now_s in (2.0, 2.02, 2.04, 2.06)]
    assert [one.step_s for one in found if one is not None] == [pytest.approx(0.02)]
