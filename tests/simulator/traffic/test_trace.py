"""Trace files: read, scaled, and refused in one line that names the place."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headway_simulator.traffic import trace as traces
from headway_simulator.traffic.trace import MAX_LINE_CHARS, Trace, TraceError, read_trace

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def written(folder: Path, text: str) -> Path:
    """A trace file with this text."""
    file = folder / "day.csv"
    file.write_text(text, encoding="utf-8", newline="")
    return file


def test_dates_become_seconds_from_the_first_and_rows_are_sorted(tmp_path: Path) -> None:
    """Seven digits of a second, CRLF line ends and other columns are all understood."""
    file = written(
        tmp_path,
        "user,TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        "b,2023-11-16 18:15:50.9951690,396,109\r\n"
        "a,2023-11-16 18:15:46.6805900,374,44\r\n\r\n",
    )
    trace = read_trace(file)
    assert [(row.prompt_tokens, row.output_tokens) for row in trace.rows] == [(374, 44), (396, 109)]
    assert trace.rows[0].at_s == 0.0
    assert trace.span_s == pytest.approx(4.314579)
    assert (trace.name, trace.prompt_tokens, trace.output_tokens) == ("day.csv", 385.0, 76.5)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_dates_mean_the_same_on_every_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    """In the night in which New York sets its clocks back, too."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        file = written(tmp_path, HEAD + "2023-11-05 00:59:59,5,3\n2023-11-05 02:00:00,5,3\n")
        assert read_trace(file).span_s == 3601
    finally:
        monkeypatch.undo()
        time.tzset()


def test_seconds_are_understood_and_an_empty_answer_counts_as_one_token(tmp_path: Path) -> None:
    """A recorded request may have generated nothing."""
    trace = read_trace(written(tmp_path, HEAD + "10.5,100,0\n12,50,7\n"))
    assert [row[:3] for row in trace.rows] == [(0.0, 100, 1), (1.5, 50, 7)]
    assert trace.rate_per_s == pytest.approx(1 / 1.5)


def test_scaling_multiplies_and_never_falls_below_one_token(tmp_path: Path) -> None:
    """Lengths to a cap, times without one."""
    trace = read_trace(written(tmp_path, HEAD + "0,1600,8\n10,16000,4000\n"))
    scaled = trace.scaled(lengths=1 / 16, time=0.5, most_tokens=200)
    assert [row[:3] for row in scaled.rows] == [(0.0, 100, 1), (5.0, 200, 200)]


def test_requests_are_cut_at_the_duration_and_get_classes_from_the_seed(tmp_path: Path) -> None:
    """The files do not contain the sender."""
    trace = read_trace(written(tmp_path, HEAD + "".join(f"{second},10,10\n" for second in range(2000))))
    requests = trace.requests(seed=3, duration_s=1000)
    assert len(requests) == 1000
    assert requests == trace.requests(seed=3, duration_s=1000)
    urgent = sum(request.class_name == "realtime" for request in requests)
    assert 150 < urgent < 250


SERVER = "TIMESTAMP,ContextTokens,GeneratedTokens,Class,Tenant,Sequences,MaxTokens\n"


def test_what_a_server_exports_keeps_classes_tenants_and_what_clients_said(tmp_path: Path) -> None:
    """Three sequences are three requests; without MaxTokens a client said nothing."""
    trace = read_trace(written(tmp_path, SERVER + "0,8,30,batch,2,3,40\n1.5,9,5,realtime,,1,\n"))
    requests = trace.requests(seed=1)
    assert [(one.class_name, one.tenant, one.output_tokens, one.max_tokens) for one in requests] == [
        *[("batch", "2", 30, 40)] * 3,
        ("realtime", "", 5, None),
    ]
    halved = trace.scaled(lengths=0.5).requests(seed=1)
    assert [(one.prompt_tokens, one.output_tokens, one.max_tokens) for one in halved[2:]] == [(4, 15, 20), (4, 2, None)]


def test_an_unknown_length_is_drawn_from_those_of_its_class(tmp_path: Path) -> None:
    """Of all classes where none of its own is known; the mean is of the known. Another seed draws others."""
    rows = "0,8,30,batch,,1,\n0,8,50,batch,,1,\n0,8,7,normal,,1,\n"
    unknown = "1,8,,batch,,1,\n" * 50 + "3,8,,extra,,1,\n" * 50
    trace = read_trace(written(tmp_path, SERVER + rows + unknown))
    drawn = [request.output_tokens for request in trace.requests(seed=1)[3:]]
    assert set(drawn[:50]) == {30, 50}
    assert set(drawn[50:]) == {30, 50, 7}
    assert trace.output_tokens == 29
    assert drawn != [request.output_tokens for request in trace.requests(seed=2)[3:]]


def test_who_asks_for_more_gets_more(tmp_path: Path) -> None:
    """Drawn is the part that was used of what the clients said: here a half, or all of it."""
    known = "0,8,50,normal,,1,100\n0,8,20,normal,,1,20\n"
    trace = read_trace(written(tmp_path, SERVER + known + "1,8,,normal,,1,400\n" * 50 + "1,8,,normal,,1,\n" * 50))
    drawn = [request.output_tokens for request in trace.requests(seed=1)[2:]]
    assert set(drawn[:50]) == {200, 400}
    assert set(drawn[50:]) == {50, 20}  # nothing was said: as it was


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        (SERVER + "0,8,,batch,2,1,40\n", "no line has a number of GeneratedTokens"),
        (SERVER + "0,8,5,batch,2,0,40\n", "line 2: Sequences: '0'"),
        (SERVER + "0,8,5,batch,2,5000,40\n", "line 2: Sequences: '5000'"),
        (SERVER + "0,8,5,batch,2,1,x\n", "line 2: MaxTokens: 'x'"),
        (SERVER + f"0,8,5,{'c' * 65},2,1,4\n", "line 2: Class: 'ccc"),
        (SERVER + "0,8,5,a,b\x07,1,4\n", "line 2: Tenant: 'b"),
        (SERVER + "0,8,5\n", "line 2: only 3 columns"),
        ("", "line 1: no column TIMESTAMP, ContextTokens, GeneratedTokens"),
        ("TIMESTAMP,ContextTokens\n1,2\n", "line 1: no column GeneratedTokens"),
        (HEAD, "line 2: there is no request"),
        (HEAD + "1,2,3\nyesterday,2,3\n", "line 3: TIMESTAMP: 'yesterday'"),
        (HEAD + "1,2\n", "line 2: only 2 columns"),
        (HEAD + "1,-5,3\n", "line 2: ContextTokens: '-5'"),
        (HEAD + "1,0,3\n", "line 2: ContextTokens: '0'"),
        (HEAD + "1,5,3.5\n", "line 2: GeneratedTokens: '3.5'"),
        (HEAD + f"1,{'1' * 5000},3\n", "line 2: ContextTokens: '1111"),
        (HEAD + f"{'9' * 400},5,3\n", "line 2: TIMESTAMP: '9999"),
        (HEAD + "0,5,3\n2023-11-16 18:15:46,5,3\n", "line 3: TIMESTAMP: some lines of this file have dates, others"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_with_its_place(tmp_path: Path, text: str, issue: str) -> None:
    """File, line, column and what is there."""
    file = written(tmp_path, text)
    with pytest.raises(TraceError) as caught:
        read_trace(file)
    assert str(caught.value).startswith(f"{file}: {issue}")
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    """Missing, and not text."""
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        read_trace(tmp_path / "none.csv")
    binary = tmp_path / "model.bin"
    binary.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(TraceError, match="cannot be read: not UTF-8"):
        read_trace(binary)


def test_all_at_once_has_no_rate() -> None:
    """Nothing is divided by zero."""
    from headway_simulator.traffic.trace import Row

    assert Trace("x", [Row(0.0, 1, 1)] * 3).rate_per_s == 0.0


def test_a_line_is_read_no_further_than_its_bound(tmp_path: Path) -> None:
    """A file without a line end is no reason to read all of it."""
    for text, number in ((HEAD + "1" * 100_000, 2), ("x" * 100_000, 1), (HEAD + '1,2,"' + "3\n" * 100_000, 2)):
        with pytest.raises(TraceError, match=rf"line {number}: longer|cannot be read") as caught:
            read_trace(written(tmp_path, text))
        assert len(str(caught.value)) < 300
    longest = "1,2,3," + "x" * (MAX_LINE_CHARS - 7)
    assert len(read_trace(written(tmp_path, HEAD + longest + "\n")).rows) == 1


def test_a_file_has_a_bounded_number_of_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are all held in memory."""
    monkeypatch.setattr(traces, "MAX_ROWS", 3)
    assert len(read_trace(written(tmp_path, HEAD + "1,2,3\n" * 3)).rows) == 3
    with pytest.raises(TraceError, match="line 5: more than 3 requests"):
        read_trace(written(tmp_path, HEAD + "1,2,3\n" * 4))
