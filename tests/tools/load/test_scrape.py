"""The server's metrics as counts."""

from __future__ import annotations

from headway_tools.load.histogram import Histogram
from headway_tools.load.scrape import ClassCounts, Counts, read

TEXT = """\
# TYPE headway_arrivals_total counter
headway_arrivals_total{class="realtime"} 7.0
headway_queue_depth{class="realtime"} 1.0
headway_in_flight{class="realtime"} 2.0
headway_outcomes_total{class="realtime",outcome="completed"} 3.0
headway_outcomes_total{class="realtime",outcome="rejected_full"} 1.0
headway_arrivals_total{class="batch"} 0.0
headway_refusals_total{class="realtime",reason="queue_full"} 1.0
headway_queue_wait_seconds_bucket{class="realtime",le="0.1"} 2.0
headway_queue_wait_seconds_bucket{class="realtime",le="+Inf"} 5.0
headway_time_to_first_token_seconds_bucket{class="realtime",le="+Inf"} 4.0
headway_fallback_steps_total{rung="cap",trigger="queue_age"} 1.0
headway_fallback_steps_total{rung="cap",trigger="kv_pressure"} 2.0
headway_batch_size_bucket{le="1.0"} 5.0
headway_batch_size_sum 30.0
headway_batch_size_count 12.0
vllm:num_requests_running{model_name="m"} 2.0
"""


def test_a_scrape_is_read_class_by_class() -> None:
    """Metrics of other programs are ignored; missing ones are zero."""
    counts = read(TEXT)
    assert counts.classes == {
        "realtime": ClassCounts(
            7,
            1,
            2,
            outcomes={"completed": 3, "rejected_full": 1},
            refusals={"queue_full": 1},
            waits=Histogram({"0.1": 2, "+Inf": 5}),
            first_tokens=Histogram({"+Inf": 4}),
        ),
        "batch": ClassCounts(),
    }
    assert counts.mean_batch == 2.5
    assert counts.rungs == {"cap": 3}
    assert counts.open == 3


def test_every_arrival_is_somewhere() -> None:
    """The identity, and a request that got lost."""
    assert read(TEXT).classes["realtime"].unaccounted == 0
    assert ClassCounts(7, 1, 2, {"completed": 3}).unaccounted == 1


def test_the_difference_of_two_scrapes_counts_the_time_between() -> None:
    """Counters are subtracted, the queue and the flight are those of the later one."""
    text = TEXT.replace(" 7.0", " 9.0").replace('"completed"} 3.0', '"completed"} 5.0').replace(" 30.0", " 34.0")
    text = text.replace('"queue_full"} 1.0', '"queue_full"} 4.0').replace('le="0.1"} 2.0', 'le="0.1"} 3.0')
    later = read(text.replace('"kv_pressure"} 2.0', '"kv_pressure"} 3.0'))
    added = later.since(read(TEXT))
    assert added.classes["realtime"] == ClassCounts(
        2,
        1,
        2,
        outcomes={"completed": 2, "rejected_full": 0},
        refusals={"queue_full": 3},
        waits=Histogram({"0.1": 1, "+Inf": 0}),
        first_tokens=Histogram({"+Inf": 0}),
    )
    assert added.rungs == {"cap": 1}
    assert added.batch_sum == 4
    assert added.mean_batch is None
    assert later.since(Counts({})).classes == later.classes
