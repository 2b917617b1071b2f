"""A forecast is the simulator's answer for the recorded requests, with an oracle for every figure."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest
from recorded_traffic import MODEL, SLO, SPAN_S, recording

from headway.api.schema import Interval
from headway.forecast import ForecastError
from headway.forecast.figures import Figures, merged
from headway.forecast.replay import MOST_SEQUENCES, drawn, recorded, replay
from headway.recorder import Recorder
from headway_policies import Outcome, Ticket, Usage, bundled_presets
from headway_policies.preset import reach
from headway_simulator import WORKLOADS, EngineModel, Request, Trace, Variation, simulate


@pytest.mark.parametrize("name", ["latency", "balanced", "throughput"])
def test_the_first_replay_is_what_the_simulator_says_of_the_same_requests(name: str) -> None:
    """Counts and quantiles of the requests after the first tenth, against a run of the workload itself."""
    preset = bundled_presets()[name]
    requests = WORKLOADS["W1"].requests(SPAN_S, 1, model=MODEL, slo=SLO, load=1.3)
    begin_s = requests[0].at_s
    expected = [
        visit for visit in simulate(requests, preset, MODEL, seed=0).visits if visit.arrived_s - begin_s >= SPAN_S / 10
    ]
    trace = recorded(recording(1.3))
    found = replay(drawn(trace, 0), SPAN_S, preset, MODEL, 0)
    assert found.all.offered == pytest.approx(len(expected), rel=0.02)
    assert found.all.completed == pytest.approx(sum(one.outcome is Outcome.COMPLETED for one in expected), rel=0.03)
    assert found.all.offered == sum(one.offered for one in found.classes.values())
    for one in [found.all, *found.classes.values()]:
        assert one.completed + one.refused + one.timed_out == one.offered
    ttfts_s = [one.ttft_s for one in expected if one.ttft_s is not None]
    assert found.all.ttft_s[0] == pytest.approx(median(ttfts_s), rel=0.1)
    tokens = sum(one.made_tokens for one in expected) / (0.9 * SPAN_S)
    assert found.tokens_per_s == pytest.approx(tokens, rel=0.15)
    assert 0 < found.mean_batch <= (reach(preset.settings()) or MODEL.max_num_seqs)


def test_further_replays_shuffle_the_lengths_and_nothing_else() -> None:
    """The same arrivals, classes and prompts; the same answers within each class in another order."""
    trace = recorded(recording(1.0))
    first, second = drawn(trace, 0), drawn(trace, 2)
    assert [one._replace(output_tokens=0) for one in first] == [one._replace(output_tokens=0) for one in second]
    assert [one.output_tokens for one in first] == [one.output_tokens for one in second]  # the clients said them
    assert drawn(trace, 2) == second
    unsaid = Trace("unsaid", [row._replace(max_tokens=None) for row in trace.rows], tells_length=True)
    shuffled = [one.output_tokens for one in drawn(unsaid, 2)]
    assert shuffled != [one.output_tokens for one in drawn(unsaid, 0)]
    assert sorted(shuffled) == sorted(row.output_tokens for row in trace.rows)


def test_unknown_lengths_are_drawn_from_the_known_ones() -> None:
    """Half of the answers are not known: the mean stays about the same."""
    whole, half = drawn(recorded(recording(1.0)), 0), drawn(recorded(recording(1.0, known=0.5)), 0)
    assert len(whole) == len(half)
    mean = [sum(request.output_tokens for request in requests) / len(requests) for requests in (whole, half)]
    assert mean[1] == pytest.approx(mean[0], rel=0.02)


def test_of_very_many_requests_the_newest_are_replayed() -> None:
    """Their times count from the first of them; requests of several sequences are so many."""
    recorder = Recorder()
    for number in range(MOST_SEQUENCES):
        ticket = Ticket(number, "normal", number / 10, seats=2, prompt_tokens=8)
        recorder.arrived(ticket)
        recorder.completed(ticket, Usage(16, 40))
    trace = recorded(recorder.recording(MOST_SEQUENCES / 10))
    assert len(trace.rows) == MOST_SEQUENCES
    assert trace.rows[0].at_s == 0.0
    assert trace.rows[-1].at_s == pytest.approx(MOST_SEQUENCES / 20, abs=0.2)
    assert {row.output_tokens for row in trace.rows} == {20}


def test_a_recording_that_is_cut_is_as_long_as_what_is_left() -> None:
    """Also where an invalid request is among the newest: the load is that of the arrivals."""
    recorder = Recorder()
    for number in range(3 * MOST_SEQUENCES):
        ticket = Ticket(number, "normal", number / 20, prompt_tokens=8)
        recorder.arrived(ticket)
        recorder.completed(ticket, Usage(8, 20))
        if number == 3 * MOST_SEQUENCES - 100:
            recorder.ended(ticket, Outcome.REJECTED_INVALID, number / 20)
    now_s = 3 * MOST_SEQUENCES / 20
    cut = recorder.recording(now_s, 600.0, MOST_SEQUENCES + 1)
    assert cut.span_s == pytest.approx(MOST_SEQUENCES / 20, rel=0.01)
    assert recorded(cut).rows[0].at_s < 0.2
    assert recorder.recording(now_s, 60.0, MOST_SEQUENCES + 1).span_s == 60.0


@pytest.mark.parametrize(("tokens", "per_s"), [(1, 5.0), (2, 10.0)])
def test_answers_of_one_token_count(tokens: int, per_s: float) -> None:
    """As those of a classifier: their only token comes at once, and a step computes them."""
    requests = [Request(0.2 * number, "normal", 64, tokens, tokens) for number in range(500)]
    found = replay(requests, 100.0, bundled_presets()["throughput"], EngineModel(), 0)
    assert found.all.completed == found.all.offered
    assert found.tokens_per_s == pytest.approx(per_s, rel=0.01)
    assert found.mean_batch >= 1.0


def test_without_traffic_or_answers_there_is_no_forecast() -> None:
    """Each with its reason."""
    with pytest.raises(ForecastError, match="no request has arrived"):
        recorded(Recorder().recording(5.0))
    recorder = Recorder()
    recorder.arrived(Ticket(1, "normal", 1.0))
    with pytest.raises(ForecastError, match="no request has completed"):
        recorded(recorder.recording(5.0))


def test_an_engine_that_varies_does_so_in_another_way_in_each_replay() -> None:
    """The seed of the replay draws it: the intervals hold the chance of the engine, repeatably."""
    trace, preset = recorded(recording(0.9)), bundled_presets()["balanced"]
    requests = drawn(trace, 0)
    varying = replace(MODEL, variation=Variation(jitter_ratio=0.3, jitter_hold_s=10.0))

    def replays(model: EngineModel, number: int) -> list[Figures]:
        return [replay(requests, SPAN_S, preset, model, seed) for seed in range(number)]

    steady, varied = merged("", replays(MODEL, 2)).mean_batch, replays(varying, 3)
    unsteady = merged("", varied).mean_batch
    assert steady.low == steady.value == steady.high
    assert unsteady.low < unsteady.value < unsteady.high
    assert replays(varying, 1) == varied[:1]


def test_figures_of_several_replays_are_median_least_and_largest() -> None:
    """A figure that one replay does not have is none."""
    preset, trace = bundled_presets()["balanced"], recorded(recording(0.8))
    replays = [replay(drawn(trace, seed), SPAN_S, preset, MODEL, seed) for seed in range(3)]
    found = merged("balanced", replays)
    tokens = sorted(replay.tokens_per_s for replay in replays)
    assert found.tokens_per_s == Interval(value=tokens[1], low=tokens[0], high=tokens[2])
    p95_s = sorted(replay.classes["realtime"].ttft_s[1] or 0.0 for replay in replays)
    assert found.classes["realtime"].ttft_s.p95 == Interval(value=p95_s[1], low=p95_s[0], high=p95_s[2])
    assert found.classes["normal"].completed_ratio.value <= 1.0
