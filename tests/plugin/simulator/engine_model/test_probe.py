"""Measurements of streamed answers: computed by hand, and from a server that streams at once."""

from __future__ import annotations

import pytest
from completions_stand_in import CompletionsStandIn

from headway.simulator.engine_model.fit import CalibrationError, Point
from headway.simulator.engine_model.probe import OUTPUT_TOKENS, PROMPT_WORDS, Probe, Stream, together


def test_only_the_time_in_which_all_ran_counts() -> None:
    """Two streams, steps of 1 s together and of 0.5 s alone."""
    one = Stream(0.0, [1.0, 1.5, 2.0, 3.0, 4.0], output_tokens=5)
    other = Stream(0.0, [2.0, 3.0, 4.0, 4.5], output_tokens=4)
    assert together([one, other]) == [Point(2, 1.0)]


def test_several_tokens_in_one_piece_are_several_tokens() -> None:
    """A piece each second, two tokens in each: half a second a token."""
    assert together([Stream(0.0, [1.0, 2.0, 3.0], output_tokens=6)]) == [Point(1, 0.5)]


def test_streams_that_never_ran_together_give_no_point() -> None:
    """As behind a server with fewer seats."""
    assert together([Stream(0.0, [1.0, 2.0], output_tokens=2), Stream(0.0, [3.0, 4.0], output_tokens=2)]) == []


def test_a_stream_is_read_as_the_server_sends_it() -> None:
    """Pieces counted, lengths as the server counts them, no end before the length asked for, no prompt twice."""
    with CompletionsStandIn() as server, Probe(server.url) as probe:
        stream = probe.stream(8, 5)
        probe.stream(8, 5)
    assert probe.model == "stand-in"
    assert (len(stream.times_s), stream.prompt_tokens, stream.output_tokens) == (5, 8, 5)
    assert stream.asked_s <= stream.times_s[0] <= stream.times_s[-1]
    assert all(body["ignore_eos"] and body["stream"] and body["max_tokens"] == 5 for body in server.asked)
    assert server.asked[0]["prompt"] != server.asked[1]["prompt"]


def test_both_series_are_measured_in_rounds_and_reported() -> None:
    """Three answers of one token for each prompt length; as many streams at once as the concurrency says."""
    reported: list[float] = []
    with CompletionsStandIn() as server, Probe(server.url) as probe:
        measured = probe.measure(60.0, lambda what, ratio: reported.append(ratio))
    assert [point.at for point in measured.first_token] == [words for words in PROMPT_WORDS for _ in range(3)]
    assert reported == sorted(reported)
    assert reported[-1] < 1.0
    asked = [body["max_tokens"] for body in server.asked]
    assert asked.count(1) == 3 * len(PROMPT_WORDS)
    assert asked.count(OUTPUT_TOKENS) == 1 + (1 + 2 + 4 + 8 + 16 + 32)


def test_when_the_time_is_over_no_round_begins() -> None:
    """The server gets no request."""
    with CompletionsStandIn() as server, Probe(server.url) as probe:
        measured = probe.measure(0.0, lambda what, ratio: None)
    assert (measured.first_token, measured.inter_token, len(server.asked)) == ([], [], 1)


def test_a_prompt_longer_than_the_model_takes_is_omitted() -> None:
    """Once two lengths are known; before that the server's own message is the answer."""
    with CompletionsStandIn(longest_prompt=200) as server, Probe(server.url) as probe:
        measured = probe.measure(60.0, lambda what, ratio: None)
    assert max(point.at for point in measured.first_token) == 128
    with (
        CompletionsStandIn(longest_prompt=10) as server,
        Probe(server.url) as probe,
        pytest.raises(CalibrationError, match=r"answered 400: .*too long"),
    ):
        probe.measure(60.0, lambda what, ratio: None)


def test_an_answer_without_a_token_is_refused() -> None:
    """A model that does not generate text cannot be measured so."""
    with (
        CompletionsStandIn() as server,
        Probe(server.url) as probe,
        pytest.raises(CalibrationError, match="streamed no token"),
    ):
        probe.stream(8, 0)
