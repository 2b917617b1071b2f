"""The arithmetic of a run, each check that can fail it, and its report."""

from __future__ import annotations

import dataclasses
import json

import pytest
from overload_example import OVERLOAD

from headway_tools.demo.overload.report import overload_lines
from headway_tools.demo.overload.shares import ClassShare
from headway_tools.demo.report import as_json, text
from headway_tools.demo.summary import PresetSeen, Summary, checks, summarise
from headway_tools.load.scrape import ClassCounts, Counts
from headway_tools.load.served import COMPLETED, FAILED, REFUSED, Served

BEFORE = PresetSeen("balanced", 1, 32)
AFTER = PresetSeen("throughput", 2, 64)
SERVED = [
    Served("realtime", COMPLETED, 0.1, 10),
    Served("realtime", COMPLETED, 0.3, 10),
    Served("batch", COMPLETED, 0.5, 20),
    Served("batch", REFUSED, why="queue_full"),
]
SENT = {"realtime": 2, "batch": 2}
FIRST = Counts({"realtime": ClassCounts(5, 0, 0, {"completed": 5}), "batch": ClassCounts()}, 10, 10)
LAST = Counts(
    {
        "realtime": ClassCounts(7, 0, 0, {"completed": 7}),
        "batch": ClassCounts(2, 0, 0, {"completed": 1, "rejected_full": 1}),
    },
    40,
    20,
)


def good() -> Summary:
    return summarise(SERVED, SENT, 4.0, (FIRST, LAST), (BEFORE, AFTER), OVERLOAD)


def failed(summary: Summary, wanted: tuple[str, ...] = ("realtime", "batch")) -> dict[str, str]:
    return {one.promise: one.detail for one in checks(summary, wanted) if not one.held}


def test_a_request_of_another_client_is_named_and_no_fault() -> None:
    """The first page of the documentation sends one while the demo runs."""
    last = Counts({**LAST.classes, "batch": ClassCounts(3, 0, 0, {"completed": 2, "rejected_full": 1})})
    summary = summarise(SERVED, SENT, 4.0, (FIRST, last), (BEFORE, AFTER), OVERLOAD)
    assert failed(summary) == {}
    assert "1 more came from other clients" in [one.detail for one in checks(summary, ("realtime", "batch"))]


def test_a_good_run_adds_up() -> None:
    """Figures from the clients, mean batch from the server, and nothing to complain about."""
    summary = good()
    realtime, batch = summary.classes
    assert (realtime.ttft_p50_s, realtime.ttft_p95_s) == (0.1, 0.3)
    assert (batch.endings, batch.why) == ({COMPLETED: 1, REFUSED: 1}, {"queue_full": 1})
    assert summary.output_tokens_per_s == 10.0
    assert summary.mean_batch == 3.0
    assert failed(summary) == {}


@pytest.mark.parametrize(
    ("change", "promise", "detail"),
    [
        pytest.param({"sent": {"realtime": 3, "batch": 2}}, "every request ended", "realtime: 1", id="unfinished"),
        pytest.param(
            {"served": [*SERVED[:3], Served("batch", FAILED, why="cut")]}, "no request failed", "cut: 1", id="failed"
        ),
        pytest.param(
            {"served": [*SERVED[:2], SERVED[3], SERVED[3]]},
            "each class had a request completed",
            "none in: batch",
            id="none completed",
        ),
        pytest.param(
            {"after": PresetSeen("throughput", 1, 64)},
            "the preset switch took effect",
            "balanced -> throughput, revision 1 -> 1, limit 32 -> 64",
            id="same revision",
        ),
        pytest.param(
            {"after": PresetSeen("balanced", 2, 64)},
            "the preset switch took effect",
            "balanced -> balanced, revision 1 -> 2, limit 32 -> 64",
            id="same preset",
        ),
        pytest.param(
            {"last": Counts({**LAST.classes, "batch": ClassCounts(2, 1, 0, {"completed": 1, "rejected_full": 1})})},
            "arrivals = queued + in flight + outcomes",
            "batch: -1",
            id="ledger",
        ),
        pytest.param(
            {"last": Counts({})},
            "arrivals = queued + in flight + outcomes",
            "the server shows no classes",
            id="no metrics",
        ),
        pytest.param(
            {"last": Counts({**LAST.classes, "batch": ClassCounts(1, 0, 0, {"rejected_full": 1})})},
            "the server counted what the clients saw",
            "batch sent: client 2, server 1; batch completed: client 1, server 0",
            id="too few",
        ),
        pytest.param(
            {"last": Counts({**LAST.classes, "batch": ClassCounts(3, 0, 0, {"completed": 3})})},
            "the server counted what the clients saw",
            "batch completed: client 1, server 3",
            id="more completed than others sent",
        ),
    ],
)
def test_each_thing_that_is_not_so_is_named(change: dict[str, object], promise: str, detail: str) -> None:
    """One broken fact, one failed check with its numbers."""
    facts = {"served": SERVED, "sent": SENT, "last": LAST, "after": AFTER} | change
    summary = summarise(
        facts["served"],  # type: ignore[arg-type] # a table of mixed facts
        facts["sent"],  # type: ignore[arg-type] # same
        4.0,
        (FIRST, facts["last"]),  # type: ignore[arg-type] # same
        (BEFORE, facts["after"]),  # type: ignore[arg-type] # same
        OVERLOAD,
    )
    assert failed(summary)[promise] == detail


@pytest.mark.parametrize(
    ("place", "change", "promise", "detail"),
    [
        pytest.param(
            1,
            {"ended": 199},
            "every overload request had exactly one outcome",
            "batch: 200 sent, 199 ended; 200 arrived, 200 outcomes",
            id="no end for the client",
        ),
        pytest.param(
            0,
            {"outcomes": {"completed": 99, "failed": 2}},
            "every overload request had exactly one outcome",
            "realtime: 100 sent, 100 ended; 100 arrived, 101 outcomes",
            id="two outcomes in the server",
        ),
    ],
)
def test_an_overload_that_lost_something_fails_the_run(
    place: int, change: dict[str, object], promise: str, detail: str
) -> None:
    """One outcome for each request, for its client and for the server."""
    classes = list(OVERLOAD.classes)
    classes[place] = dataclasses.replace(classes[place], **change)  # type: ignore[arg-type] # a table of mixed facts
    summary = dataclasses.replace(good(), overload=dataclasses.replace(OVERLOAD, classes=classes))
    assert failed(summary) == {promise: detail}


def test_a_run_without_its_overload_fails() -> None:
    """A check that looked at nothing does not hold."""
    assert set(failed(dataclasses.replace(good(), overload=None))) == {
        "every overload request had exactly one outcome",
        IN_ORDER,
        NEARLY_ALL,
    }


def served(*shares: tuple[str, int, int], capacity_per_s: float = 20.0) -> Summary:
    """A good run, but for what was served: (class, requests served, of them in time), of 100 each in ten seconds."""
    found = [ClassShare(name, 100, done, done, in_time, 1.0) for name, done, in_time in shares]
    return dataclasses.replace(
        good(), overload=dataclasses.replace(OVERLOAD, shares=found, capacity_per_s=capacity_per_s)
    )


IN_ORDER = "a more urgent class completes more of its requests, and in time"
NEARLY_ALL = "nearly all requests of the most urgent class completed"
WELL = (("realtime", 99, 97), ("normal", 60, 50), ("batch", 30, 30))


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        pytest.param(WELL, {}, id="in the order of the classes"),
        pytest.param(
            (("realtime", 99, 40), ("normal", 60, 50), ("batch", 30, 30)),
            {IN_ORDER: "in time: realtime 40%, normal 50%"},
            id="served, but late",
        ),
        pytest.param(
            (("realtime", 95, 95), ("normal", 60, 50), ("batch", 30, 30)),
            {NEARLY_ALL: "realtime 95 of 100"},
            id="some of the most urgent class refused",
        ),
        pytest.param(
            (("realtime", 30, 30), ("normal", 60, 50), ("batch", 99, 97)),
            {
                IN_ORDER: "served meanwhile: realtime 30%, normal 60%; in time: realtime 30%, normal 50%; "
                "served meanwhile: normal 60%, batch 99%; in time: normal 50%, batch 97%",
                NEARLY_ALL: "realtime 30 of 100",
            },
            id="turned round",
        ),
    ],
)
def test_an_overload_is_served_in_the_order_of_the_classes(
    shares: tuple[tuple[str, int, int], ...], expected: dict[str, str]
) -> None:
    """The run fails where the order is another, and where the most urgent class is refused."""
    assert failed(served(*shares)) == expected


def test_a_class_that_alone_is_too_much_may_be_refused() -> None:
    """Ten requests a second of an engine that can do nine."""
    shares = (("realtime", 90, 90), *WELL[1:])
    assert failed(served(*shares, capacity_per_s=9.0)) == {}
    assert failed(served(*shares, capacity_per_s=11.0)) == {NEARLY_ALL: "realtime 90 of 100"}


def test_a_class_that_was_never_sent_is_missed() -> None:
    """Wanted is wanted."""
    assert "each class had a request completed" in failed(good(), ("realtime", "batch", "normal"))


def test_the_report_says_the_figures_and_what_failed() -> None:
    """As text for readers."""
    summary = dataclasses.replace(good(), after=BEFORE)
    shown = text(summary, checks(summary, ["realtime"]))
    rows = [line.split() for line in shown.splitlines()]
    assert ["realtime", "2", "completed", "2", "100", "300"] in rows
    assert ["batch:", "queue_full", "1"] in rows
    assert "10.0 tokens/s" in shown
    assert "3.0 sequences in an engine step" in shown
    assert "FAILED  the preset switch took effect: balanced -> balanced, revision 1 -> 1, limit 32 -> 32" in shown


def test_the_report_has_the_lines_of_the_overload() -> None:
    """Where there was one."""
    assert "\n".join(overload_lines(OVERLOAD)) in text(good(), [])


def test_requests_that_were_open_at_an_interruption_are_shown() -> None:
    """Sent is the sum of the endings and of the open ones."""
    summary = summarise(SERVED[:3], SENT, 4.0, (FIRST, LAST), (BEFORE, AFTER))
    assert "completed 1, open 1" in text(summary, [])


def test_the_report_is_json_for_scripts() -> None:
    """The same figures, and one key that says whether all held."""
    summary = good()
    answer = json.loads(as_json(summary, checks(summary, ["realtime"])))
    assert answer["ok"] is True
    assert answer["after"] == {"name": "throughput", "revision": 2, "limit": 64}
    assert answer["classes"][0]["ttft_p95_s"] == 0.3
    assert answer["overload"]["classes"][1]["refused"] == {"shed": 70, "evicted": 10}
