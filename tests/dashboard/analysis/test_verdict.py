"""The verdict on a running server: what its sentences name, where the thresholds lie, and when they must not be
favourable."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headway.api.schema import FallbackState
from headway_dashboard.analysis import descriptions, newest_values, panels
from headway_dashboard.analysis.condition import Condition, State
from headway_dashboard.analysis.expressions import Expression
from headway_dashboard.analysis.model import Series
from headway_dashboard.analysis.status import Status
from headway_dashboard.analysis.verdict import ClassFacts, Facts, doubling_gain, main_causes, troubles, verdict
from headway_dashboard.sources import Health, Reading

INF, NAN = math.inf, math.nan
JUST_ABOVE = math.nextafter(0.01, 1)
JUST_BELOW = math.nextafter(0.01, 0)

#: What a sentence says only of a server that does well.
FAVOURABLE = ("below capacity", "without delay", "fits the traffic", "plenty of room", "no request is lost")

NORMAL = ClassFacts("normal", ttft_p95_s=0.1, first_token_timeout_s=60.0, error_share=0.0)
WELL = Facts(
    seats_taken=5, limit=32, queued=0, kv_ratio=0.2, error_share=0.0, ttft_p95_s=0.12, classes=(NORMAL,), causes={}
)


def is_favourable(text: str) -> bool:
    """Whether a text finds the server well."""
    return any(words in text.lower() for words in FAVOURABLE)


# ---------------------------------------------------------------------- the rules


@pytest.mark.parametrize(
    ("changed", "opening"),
    [
        ({}, "Far below capacity: 5 of 32 seats taken, no request waits. First tokens within 120\u00a0ms (p95)."),
        ({"seats_taken": 20}, "Below capacity: 20 of 32 seats taken"),
        (
            {"seats_taken": 32},
            "At capacity, without delay: 32 of 32 seats taken, no request waits. The limit fits the traffic.",
        ),
        ({"seats_taken": 32, "error_share": 0.001}, "At capacity, without delay"),
        (
            {"seats_taken": 32, "queued": 41, "oldest_wait_s": 3.2},
            "Limited by seats: 32 of 32 seats taken, 41 waiting, the oldest for 3.2\u00a0s.",
        ),
        ({"seats_taken": 10, "queued": 4}, "Requests wait although seats are free"),
        ({"seats_taken": 20, "queued": 9, "kv_ratio": 0.97}, "Limited by memory"),
        ({"error_share": 0.2}, "20\u00a0% of requests end without an answer. 5 of 32 seats taken, no request waits."),
        (
            {"error_share": 0.2, "causes": {"expected wait too long": 2.0, "failed": 1.0}},
            "20\u00a0% of requests end without an answer; main cause: expected wait too long.",
        ),
        (
            {"error_share": 0.2, "seats_taken": 32, "queued": 3, "causes": {"queue full": 1.0}},
            "20\u00a0% of requests end without an answer; main cause: queue full. Limited by seats",
        ),
        (
            {"classes": (replace(NORMAL, error_share=0.5),)},
            "50\u00a0% of the requests of class normal end without an answer. 5 of 32 seats taken",
        ),
        (
            {"classes": (replace(NORMAL, ttft_p95_s=61.0),)},
            "First tokens of class normal come too late: 1\u00a0min 1\u00a0s (p95), its time-out is 1\u00a0min. "
            "5 of 32 seats taken, no request waits.",
        ),
        ({"seats_taken": None}, "Batch size and limit are not measured"),
        ({"limit": None}, "Batch size and limit are not measured"),
        ({"limit": 0, "seats_taken": 0, "queued": 3}, "No seat is open: 0 of 0 seats taken, 3 waiting."),
    ],
)
def test_verdict(changed: dict[str, object], opening: str) -> None:
    """What goes wrong first, then the first rule that holds, each with its evidence."""
    assert verdict(replace(WELL, **changed)).startswith(opening)  # type: ignore[arg-type]  # a table's values


@pytest.mark.parametrize(
    ("changed", "lacks"),
    [
        ({"error_share": None}, "error share"),
        ({"error_share": NAN}, "error share"),
        ({"kv_ratio": None}, "KV cache in use"),
        ({"queued": None}, "requests that wait"),
        ({"classes": ()}, "classes"),
        ({"classes": (replace(NORMAL, ttft_p95_s=None),)}, "time to first token of normal"),
        ({"classes": (replace(NORMAL, ttft_p95_s=NAN),)}, "time to first token of normal"),
        ({"classes": (replace(NORMAL, first_token_timeout_s=None),)}, "first-token time-out of normal"),
        ({"classes": (replace(NORMAL, first_token_timeout_s=NAN),)}, "first-token time-out of normal"),
        ({"classes": (replace(NORMAL, first_token_timeout_s=None, idle=True),)}, "first-token time-out of normal"),
    ],
)
def test_what_is_not_known_is_not_favourable(changed: dict[str, object], lacks: str) -> None:
    """The load is described as measured, and so is what is missing for a verdict; zero ended requests are no error
    share of 0."""
    text = verdict(replace(WELL, **changed))  # type: ignore[arg-type]  # a table's values
    assert text.startswith("5 of 32 seats taken")
    assert text.endswith(f"Not known: {lacks}.")
    assert not is_favourable(text)
    assert ("no request waits" in text) is ("queued" not in changed)


def test_an_idle_class_adds_nothing_to_the_verdict() -> None:
    """A class without requests, or without a time-out, does not prevent a favourable verdict."""
    idle = ClassFacts("batch", first_token_timeout_s=600.0, idle=True)
    assert is_favourable(verdict(replace(WELL, classes=(NORMAL, idle))))
    assert is_favourable(verdict(replace(WELL, classes=(replace(NORMAL, first_token_timeout_s=INF),))))


# ---------------------------------------------------------------------- the limits


@pytest.mark.parametrize(("share", "named"), [(JUST_BELOW, False), (0.01, False), (JUST_ABOVE, True), (INF, False)])
def test_errors_are_named_above_one_percent(share: float, named: bool) -> None:
    """Exactly 1 % is still allowed, as in the alert; what is no number is not known, which is not favourable either."""
    for facts in (replace(WELL, error_share=share), replace(WELL, classes=(replace(NORMAL, error_share=share),))):
        assert bool(troubles(facts)) is named
        assert ("without an answer" in verdict(facts)) is named
    assert is_favourable(verdict(replace(WELL, error_share=share))) is (not named and math.isfinite(share))


@pytest.mark.parametrize(
    ("ttft_s", "late"), [(math.nextafter(60.0, 0), False), (60.0, False), (math.nextafter(60.0, 61), True)]
)
def test_first_tokens_are_late_above_their_time_out(ttft_s: float, late: bool) -> None:
    """Exactly the time-out is still in time; each class is held to its own."""
    facts = replace(WELL, classes=(replace(NORMAL, ttft_p95_s=ttft_s), ClassFacts("batch", 70.0, 600.0)))
    assert ("First tokens of class normal come too late" in verdict(facts)) is late
    assert is_favourable(verdict(facts)) is not late
    assert "batch" not in verdict(facts)


@pytest.mark.parametrize(
    ("changed", "opening"),
    [
        ({"kv_ratio": math.nextafter(0.95, 0)}, "Far below capacity"),
        ({"kv_ratio": 0.95}, "Limited by memory"),
        ({"limit": 10, "seats_taken": 9}, "At capacity, without delay"),
        ({"limit": 10, "seats_taken": 8.99}, "Below capacity"),
        ({"limit": 10, "seats_taken": 5}, "Below capacity"),
        ({"limit": 10, "seats_taken": 4.99}, "Far below capacity"),
        ({"limit": 10, "seats_taken": 9, "queued": 1}, "Limited by seats"),
        ({"limit": 10, "seats_taken": 8.99, "queued": 1}, "Requests wait although"),
        ({"limit": 10, "seats_taken": 9, "queued": 0.99}, "At capacity, without delay"),
        ({"limit": 0, "seats_taken": 0}, "No seat is open: 0 of 0 seats taken, no request waits."),
    ],
)
def test_where_one_rule_ends_and_the_next_begins(changed: dict[str, object], opening: str) -> None:
    """The figure at the limit, just above and just below."""
    assert verdict(replace(WELL, **changed)).startswith(opening)  # type: ignore[arg-type]  # a table's values


@pytest.mark.parametrize(
    ("causes", "text"),
    [
        ({}, ""),
        ({"failed": 0.0}, ""),
        ({"failed": 0.2}, "main cause: failed"),
        ({"failed": 51.0, "shed": 49.0}, "main cause: failed"),
        ({"shed": 1.0, "failed": 1.0}, "main causes: failed (50\u00a0%), shed (50\u00a0%)"),
        ({"a": 4.0, "b": 3.0, "c": 3.0}, "main causes: a (40\u00a0%), b (30\u00a0%)"),
        ({"a": NAN, "b": 3.0}, "main cause: b"),
    ],
    ids=["none", "zero", "one", "more than half", "exactly half", "less than half", "no number"],
)
def test_most_of_them_is_more_than_half(causes: dict[str, float], text: str) -> None:
    """Else the two largest are named with their parts."""
    assert main_causes(causes) == text


# ---------------------------------------------------------------------- never friendly where it must not be

NAMES = st.sampled_from(["realtime", "normal", "batch"])
maybe = st.none() | st.floats(0, 1000) | st.sampled_from([NAN, INF, 0.0])
shares = st.none() | st.floats(0, 0.02) | st.floats(0, 1) | st.sampled_from([NAN, 0.0, 0.01, JUST_ABOVE])
class_facts = st.builds(
    ClassFacts,
    NAMES,
    ttft_p95_s=maybe,
    first_token_timeout_s=st.none() | st.floats(0.1, 1000) | st.just(INF),
    error_share=shares,
    idle=st.booleans(),
)
any_facts = st.builds(
    Facts,
    batch=maybe,
    seats_taken=maybe,
    limit=maybe,
    queued=maybe,
    oldest_wait_s=maybe,
    kv_ratio=shares,
    error_share=shares,
    ttft_p95_s=maybe,
    causes=st.dictionaries(st.sampled_from(["failed", "shed", "other: x"]), st.floats(0, 10)),
    classes=st.lists(class_facts, max_size=3).map(tuple),
)


def goes_wrong(facts: Facts) -> bool:
    """Written anew, not taken from the verdict."""
    shares = [facts.error_share, *(one.error_share for one in facts.classes)]
    too_many = any(share is not None and share > 0.01 for share in shares)
    return too_many or any(
        one.ttft_p95_s is not None
        and one.first_token_timeout_s is not None
        and one.ttft_p95_s > one.first_token_timeout_s
        for one in facts.classes
    )


@given(any_facts)
def test_the_verdict_is_never_favourable_while_something_goes_wrong(facts: Facts) -> None:
    """Errors above 1 % in all or in one class, or first tokens after their time-out; nor while the share is unknown."""
    text = verdict(facts)
    unknown = [facts.error_share, facts.kv_ratio, facts.queued, facts.limit]
    if goes_wrong(facts) or any(figure is None or math.isnan(figure) for figure in unknown):
        assert not is_favourable(text)


@given(any_facts)
def test_the_verdict_always_is_one_paragraph(facts: Facts) -> None:
    """Whatever is missing or no number, there are sentences, and they never say None, nan or inf."""
    text = verdict(facts)
    assert text.endswith(".")
    assert not re.search(r"\b(None|nan|inf)\b", text)


# ---------------------------------------------------------------------- the same for all that a page says

TIMES_S = (1000.0, 1002.0)
points = st.none() | st.floats(0, 100) | st.just(0.0)


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    """Any numbers behind a page, in any state of the server."""
    plain = (*panels.FACTS, *panels.HEAD)
    series: dict[Expression, Series] = {
        one: Series(TIMES_S, {(): [draw(points)] * 2}) for one in plain if not one.by and draw(st.booleans())
    }
    classes = draw(st.lists(NAMES, unique=True))
    for one in panels.CLASS_TABLE:
        series[one] = Series(TIMES_S, {(name,): [draw(points)] * 2 for name in classes})
    for one in (panels.ERROR_SHARE, panels.ERROR_SHARE_BY_CLASS):
        lines = {labels: [draw(shares)] * 2 for labels in series.get(one, Series((), {(): []})).lines}
        series[one] = Series(TIMES_S, {key: [None if p != p else p for p in line] for key, line in lines.items()})
    engine_state = draw(st.sampled_from(["up", "silent", "restarting", "lost"]))
    series[panels.ENGINE_STATE] = Series(TIMES_S, {(engine_state,): [1, 1]})
    last_ok_s = draw(st.sampled_from([None, 1002.0, 900.0]))
    trouble = draw(st.sampled_from([None, "refused", "silent"]))
    health = Health(last_ok_s, draw(st.integers(0, 3)), trouble, "-", 990.0 if trouble else None)
    return Reading(series, health, 2.0, "test", range_s=4.0, end_s=1002.0)


def said(reading: Reading, status: Status, state: Condition) -> str:
    """Every sentence that the functions behind the pages make of the newest numbers."""
    found = descriptions.notices_of(reading, status, state)
    return "\n".join(
        (
            state.sentence,
            newest_values.sentence(reading, state.state, status),
            *(f"{one.title} {one.text} {one.step}" for one in found),
            descriptions.ladder_words(status.ladder, descriptions.rung(reading)),
            descriptions.limit_words(reading, status),
            descriptions.prediction_words(reading),
            descriptions.warmup_words(status.warmup),
            descriptions.pause_words(status),
            *(f"{tile.label} {tile.value} {tile.note}" for tile in descriptions.server_tiles(reading, status, state)),
        )
    )


@given(
    readings(), st.dictionaries(st.sampled_from(["realtime", "normal", "batch"]), st.floats(0.1, 100)), st.booleans()
)
def test_no_page_is_friendly_while_something_goes_wrong(
    reading: Reading, timeouts_s: dict[str, float], recycling: bool
) -> None:
    """Headline, banner, notices, ladder, limit, warm-up and tiles together, in every state of the server."""
    status = Status(True, recycling=recycling, ladder=FallbackState(rung="normal"), first_token_timeout_s=timeouts_s)
    state = newest_values.condition_of(reading, 1002.0)
    share = reading[panels.ERROR_SHARE].latest()
    too_many = share is not None and share > 0.01
    late = any(
        ttft_s is not None and ttft_s > timeouts_s.get(labels[0], INF)
        for labels, line in reading[panels.TTFT_P95_BY_CLASS].lines.items()
        if labels[0] in newest_values.classes_of(reading)
        for ttft_s in line[-1:]
    )
    assume(too_many or late or share is None or state.state is not State.LIVE)
    assert not is_favourable(said(reading, status, state))


def test_the_reading_above_can_be_favourable() -> None:
    """The same functions do praise a server that does well: else the tests above would prove nothing."""
    good: dict[Expression, float] = {
        panels.SEATS: 5, panels.LIMIT: 32, panels.QUEUED: 0, panels.KV_USE: 0.1, panels.ERROR_SHARE: 0.01,
        panels.ARRIVALS: 2, panels.IN_FLIGHT: 5, panels.READY: 1,
    }  # fmt: skip
    series = {one: Series(TIMES_S, {(): [value] * 2}) for one, value in good.items()}
    table = zip(panels.CLASS_TABLE, (0, 0, 5, 2, 0.1, 0.0), strict=True)
    series |= {one: Series(TIMES_S, {("normal",): [value] * 2}) for one, value in table}
    reading = Reading(series, Health(1002.0), 2.0, "test", range_s=4.0, end_s=1002.0)
    status = Status(known=True, first_token_timeout_s={"normal": 60.0})
    state = newest_values.condition_of(reading, 1002.0)
    assert is_favourable(said(reading, status, state))
    assert not is_favourable(said(reading, Status(), state))


@pytest.mark.parametrize(
    ("arrivals_per_s", "queued", "in_flight", "idle"),
    [(0, 0, 0, True), (1, 0, 0, False), (0, 1, 0, False), (0, 0, 1, False), (None, 0, 0, False), (0, 0, None, False)],
)
def test_a_class_is_idle_when_nothing_of_it_moves(
    arrivals_per_s: float | None, queued: float | None, in_flight: float | None, idle: bool
) -> None:
    """Only then its first tokens need not be known; what was not measured is not nothing."""
    activity = (
        (panels.ARRIVALS_BY_CLASS, arrivals_per_s),
        (panels.QUEUED_BY_CLASS, queued),
        (panels.IN_FLIGHT_BY_CLASS, in_flight),
    )
    series: dict[Expression, Series] = {one: Series(TIMES_S, {("batch",): [value] * 2}) for one, value in activity}
    plain = ((panels.SEATS, 5), (panels.LIMIT, 32), (panels.QUEUED, 0), (panels.KV_USE, 0.1), (panels.ERROR_SHARE, 0))
    series |= {one: Series(TIMES_S, {(): [value] * 2}) for one, value in plain}
    text = newest_values.sentence(Reading(series, Health(1002.0), 2.0, "test"), State.LIVE, Status())
    assert text.startswith("Far below capacity") is idle
    assert text.endswith("Not known: time to first token of batch.") is not idle


def test_an_idle_server_still_names_its_errors() -> None:
    """No request arrives any more, but earlier ones were refused: the sentence says that, and not that the server is
    idle."""
    activity = (panels.ARRIVALS, panels.QUEUED, panels.IN_FLIGHT)
    series: dict[Expression, Series] = {one: Series(TIMES_S, {(): [0.0, 0.0]}) for one in activity}
    series[panels.ERRORS_BY_CAUSE] = Series(TIMES_S, {("queue_timeout", ""): [1.0, 1.0]})

    def idle(share: float | None) -> str:
        found = series | {panels.ERROR_SHARE: Series(TIMES_S, {(): [share] * 2})}
        return newest_values.sentence(Reading(found, Health(1002.0), 2.0, "test"), State.NO_TRAFFIC, Status())

    assert idle(None) == idle(0.01) == "Idle: no verdict until requests arrive."
    named = "100\u00a0% of requests end without an answer; main cause: timed out waiting."
    assert idle(1.0) == f"{named} No requests arrive now."


# ---------------------------------------------------------------------- what more seats would give


@pytest.mark.parametrize(
    ("known", "limited_by", "advice"),
    [
        (
            {"doubling_gain": 0.35},
            "seats",
            "A preset with more seats (about 35\u00a0% more tokens a second from twice the seats), or another "
            "server, would help.",
        ),
        (
            {"doubling_gain": 0.35, "ceiling": 32},
            "seats",
            "This engine has no more: another server would help, or a start with more (--max-num-seqs) (about "
            "35\u00a0% more tokens a second from twice the seats).",
        ),
        (
            {"doubling_gain": 0.1, "ceiling": 64},
            "the engine",
            "More seats will not help (twice the seats would give about 10\u00a0% more tokens a second); another "
            "server would.",
        ),
        (
            {"doubling_gain": 0.0},
            "the engine",
            "More seats will not help (twice the seats would give no more tokens a second); another server would.",
        ),
        (
            {"limit_reason": "slo", "doubling_gain": 0.9},
            "the engine",
            "More seats will not help (the time between tokens is over its SLO); another server would.",
        ),
        (
            {"limit_reason": "fixed", "ceiling": 64},
            "seats",
            "Another server would help; more seats only if tokens a second still rise with the batch, which the "
            "traffic so far does not show.",
        ),
    ],
    ids=["worth it", "none left", "hardly", "not at all", "an adaptive limit", "not known"],
)
def test_more_seats_are_advised_only_where_they_would_serve_more(
    known: dict[str, object], limited_by: str, advice: str
) -> None:
    """Where a step grows with its batch, or the limit policy has found its place, they only make tokens slower."""
    full = replace(WELL, seats_taken=32, queued=41, **known)  # type: ignore[arg-type]  # a table's values
    assert verdict(full) == f"Limited by {limited_by}: 32 of 32 seats taken, 41 waiting. {advice}"


def rates(batches: list[float], base_s: float, seat_s: float) -> list[float]:
    """The tokens a second of an engine whose step grows by a straight line."""
    return [batch / (base_s + seat_s * batch) for batch in batches]


RISING = [float(batch) for batch in range(4, 33, 2)]


@pytest.mark.parametrize(
    ("base_s", "seat_s", "gain"),
    [(0.03, 0.0, 1.0), (0.032, 0.001, 1 / 3), (0.0, 0.01, 0.0)],
    ids=["a flat step", "half of it grows", "all of it grows"],
)
def test_the_gain_of_twice_the_seats_is_read_from_what_was_measured(base_s: float, seat_s: float, gain: float) -> None:
    """A step of 32 ms and 1 ms a sequence: 32 take 64 ms, 64 take 96 ms, so a third more tokens a second."""
    assert doubling_gain(RISING, rates(RISING, base_s, seat_s)) == pytest.approx(gain, abs=1e-9)


@pytest.mark.parametrize(
    "batches",
    [[], RISING[:7], [32.0] * 20, [None, 0.0, *[30.0, 32.0] * 10]],
    ids=["nothing", "too few", "always full", "too narrow"],
)
def test_batches_that_hardly_differ_tell_no_gain(batches: list[float | None]) -> None:
    """A line through one point has any slope."""
    assert doubling_gain(batches, [100.0] * len(batches)) is None
