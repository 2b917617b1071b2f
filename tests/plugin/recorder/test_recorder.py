"""The ring of recent arrivals, against a plain list of all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.recorder import Recorder, Recording
from headway.recorder.recorder import MAX_ROWS, MAX_TENANTS
from headway_policies import Outcome, Ticket, Usage


def ticket(number: int, at_s: float = 0.0, **more: object) -> Ticket:
    """A request of the class normal."""
    return replace(Ticket(number, "normal", at_s), **more)


def rows(found: Recording) -> list[tuple[float, str, int, int, int, int, int]]:
    """The recording request by request."""
    names = [found.class_names[index] for index in found.class_index]
    columns = (found.tenant, found.sequences, found.prompt_tokens, found.max_tokens, found.output_tokens)
    return list(zip(found.at_s, names, *columns, strict=True))


def test_what_is_known_of_a_request_is_recorded() -> None:
    """Its real lengths once it has completed, for one of its sequences; tenants are numbers."""
    recorder = Recorder()
    wide = ticket(1, 5.0, tenant="acme", seats=4, prompt_tokens=90, max_tokens=200)
    recorder.arrived(wide)
    recorder.arrived(replace(ticket(2, 6.0), class_name="batch"))
    recorder.arrived(ticket(3, 7.0, tenant="acme"))
    recorder.completed(wide, Usage(400, 120))
    found = recorder.recording(65.0)
    assert rows(found) == [
        (5.0, "normal", 1, 4, 100, 200, 30),
        (6.0, "batch", 0, 1, 0, 0, 0),
        (7.0, "normal", 1, 1, 0, 0, 0),
    ]
    assert (found.span_s, found.whole, len(found)) == (60.0, True, 3)


def test_nothing_that_names_a_client_is_in_a_recording() -> None:
    """Not even in the representation of the recorder's columns."""
    recorder = Recorder()
    recorder.arrived(ticket(1, tenant="secret-tenant"))
    assert "secret" not in repr(recorder.recording(1.0))


def test_a_copy_does_not_change_afterwards() -> None:
    """The copy is read in portions while requests arrive."""
    recorder = Recorder(rows=4)
    for number in range(6):
        recorder.arrived(ticket(number, float(number)))
    found = recorder.recording(6.0)
    before = rows(found)
    recorder.arrived(ticket(6, 6.0))
    recorder.completed(ticket(5, 5.0), Usage(3, 3))
    assert rows(found) == before


@given(
    most=st.integers(1, 12),
    gaps=st.lists(st.floats(0.0, 4.0), max_size=60),
    finished=st.lists(st.integers(0, 70), max_size=30),
    skipped=st.sets(st.integers(0, 60)),
)
def test_the_ring_holds_the_newest_of_the_last_half_hour(
    most: int, gaps: list[float], finished: list[int], skipped: set[int]
) -> None:
    """As a list of all arrivals says, whatever ids are missing; an answer is noted where its request still is."""
    recorder = Recorder(keep_s=30.0, rows=most)
    model: list[list[float]] = []
    now_s, last = 0.0, 0
    for place, gap_s in enumerate(gaps):
        now_s += gap_s
        last += 2 if place in skipped else 1
        recorder.arrived(ticket(last, now_s, prompt_tokens=last))
        model.append([now_s, last, 0])
        for number in finished:
            if number == last - 3:
                recorder.completed(ticket(number), Usage(0, 10 + number))
                for row in model:
                    if row[1] == number:
                        row[2] = 10 + number
    found = recorder.recording(now_s)
    kept = [row for row in model[-most:] if row[0] >= now_s - 30.0]
    assert [list(row) for row in zip(found.at_s, found.prompt_tokens, found.output_tokens, strict=True)] == kept
    lost = model[:-most]
    assert found.whole == (not lost or lost[-1][0] < now_s - 30.0)
    began_s = lost[-1][0] if lost else (model[0][0] if model else now_s)
    assert found.span_s == pytest.approx(min(30.0, now_s - began_s))


def test_its_memory_has_a_bound() -> None:
    """36 bytes a row, a bounded table of tenants; it begins small."""
    recorder = Recorder()

    def size_bytes() -> int:
        return sum(len(column) * column.itemsize for column in recorder._ring.columns)

    recorder.arrived(ticket(0))
    assert size_bytes() < 16 * 1024
    for number in range(1, MAX_ROWS + 50):
        recorder.arrived(ticket(number, number / 1000, tenant=f"t{number}"))
    assert size_bytes() == 36 * MAX_ROWS
    assert len(recorder._tenants) <= MAX_TENANTS + 1
    assert len(recorder.recording(MAX_ROWS / 1000)) == MAX_ROWS
    newest = recorder.recording(MAX_ROWS / 1000, most=3)
    assert [round(1000 * at_s) for at_s in newest.at_s] == [MAX_ROWS + 47, MAX_ROWS + 48, MAX_ROWS + 49]


def test_lengths_beyond_all_bounds_are_cut() -> None:
    """A client may ask for any number of tokens."""
    recorder = Recorder()
    recorder.arrived(ticket(1, max_tokens=2**70, prompt_tokens=2**40, seats=10**6))
    recorder.completed(ticket(1), Usage(2**80, 2**80))
    assert rows(recorder.recording(1.0))[0][3:] == (65_535, 2**32 - 1, 2**32 - 1, 2**32 - 1)


@given(invalid=st.sets(st.integers(0, 19)), most=st.integers(1, 20), newest=st.integers(1, 20))
def test_an_invalid_request_is_no_load(invalid: set[int], most: int, newest: int) -> None:
    """The request leaves the recording at its end; a request that was refused stays."""
    recorder, tickets = (
        Recorder(rows=most),
        [ticket(number, float(number), prompt_tokens=number) for number in range(20)],
    )
    for one in tickets:
        recorder.arrived(one)
    for one in tickets:
        how = Outcome.REJECTED_INVALID if one.id in invalid else Outcome.REJECTED_FULL
        recorder.ended(one, how, 20.0)
    found = recorder.recording(20.0, most=newest)
    kept = [number for number in range(20)[-min(most, newest) :] if number not in invalid]
    assert rows(found) == [(float(number), "normal", 0, 1, number, 0, 0) for number in kept]
