"""A recording as a trace: what is read back is what was recorded."""

from __future__ import annotations

from pathlib import Path

from headway.recorder import Recorder, trace_lines
from headway_policies import Ticket, Usage
from headway_simulator import read_trace


async def test_a_trace_is_read_back_as_it_was_recorded(tmp_path: Path) -> None:
    """Times from the first arrival, classes, tenants as numbers, sequences one by one, unknown lengths empty."""
    recorder = Recorder()
    tickets = [
        Ticket(1, "realtime", 100.25, "acme", prompt_tokens=12, max_tokens=64),
        Ticket(2, "normal", 101.0, seats=2, prompt_tokens=7),
        Ticket(3, "batch", 103.5, "acme", prompt_tokens=0, max_tokens=9),
    ]
    for ticket in tickets:
        recorder.arrived(ticket)
    recorder.completed(tickets[0], Usage(12, 31))
    recorder.completed(tickets[1], Usage(14, 80))
    file = tmp_path / "monday.csv"
    file.write_text("".join([part async for part in trace_lines(recorder.recording(110.0))]), encoding="utf-8")
    trace = read_trace(file)
    assert [tuple(row) for row in trace.rows] == [
        (0.0, 12, 31, "realtime", "1", 64),
        (0.75, 7, 40, "normal", "", None),
        (0.75, 7, 40, "normal", "", None),
        (3.25, 1, 0, "batch", "1", 9),
    ]
    assert trace.tells_length


async def test_a_long_recording_comes_in_portions() -> None:
    """None of them is large, however many requests there were."""
    recorder = Recorder()
    for number in range(5000):
        recorder.arrived(Ticket(number, "normal", number / 10))
    parts = [part async for part in trace_lines(recorder.recording(500.0))]
    assert "".join(parts).count("\n") == 5001
    assert max(map(len, parts)) < 32_000
