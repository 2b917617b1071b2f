"""Error share and causes: each failure counted once, under a name, whatever the counters do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from counter_histories import (
    UNKNOWN_OUTCOME,
    UNKNOWN_REASON,
    Scrape,
    broken_history,
    ledger_history,
    outcome_key,
    reason_key,
)
from error_share_sum import sums_to_the_share
from hypothesis import given
from hypothesis import strategies as st
from stub_server import StubServer

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.causes import BY_REASON, COLOURS, NOT_FAILED, colour, words
from headway_dashboard.analysis.queries.model import Grid, Point
from headway_dashboard.analysis.server import newest_values
from headway_dashboard.sources import Health, SourceReading
from headway_dashboard.sources.exposition import samples
from headway_dashboard.sources.ring import Ring
from headway_policies import Outcome, Reason
from headway_policies.diagnosis import WORDS
from headway_policies.request.outcome import LEFT, REFUSED

STEP_S = 2.0
GRID = Grid(start_s=1000.0, end_s=1040.0, step_s=STEP_S, window_s=10.0)
SEEDS = st.integers(0, 2**32)
ENDS = (*Reason, *(outcome for outcome in Outcome if outcome not in REFUSED.values()))


def filled(history: Sequence[Scrape]) -> Ring:
    """A ring that scraped a history, once every two seconds up to the end of the grid."""
    ring = Ring(keep_s=600.0, stale_s=3 * STEP_S)
    for at, scrape in enumerate(history):
        ring.add(GRID.end_s - (len(history) - 1 - at) * STEP_S, list(scrape.items()))
    return ring


# ---------------------------------------------------------------------- the table


def test_every_way_to_fail_has_a_cause() -> None:
    """A reason or an outcome that is added to the policies fails here until it is classified."""
    assert set(NOT_FAILED) == {Outcome.COMPLETED, Outcome.CANCELLED_QUEUED, Outcome.CANCELLED_RUNNING}
    assert set(COLOURS) == set(WORDS) == {*Reason} | ({*Outcome} - {*NOT_FAILED} - {*BY_REASON})
    assert len({*WORDS.values()}) == len(WORDS)
    assert len({*COLOURS.values(), colour("new")}) == len(COLOURS) + 1
    assert not any("_" in text or text != text.strip() for text in WORDS.values())


def test_an_outcome_has_always_a_reason_or_never() -> None:
    """The two ways out of the desk share no outcome and omit none: so each end is counted once."""
    by_itself = {outcome for pair in LEFT.values() for outcome in pair}
    assert by_itself | set(BY_REASON) == set(Outcome)
    assert not by_itself & set(BY_REASON)


def test_a_cause_that_is_not_known_keeps_its_name() -> None:
    """The cause is shown as another cause, never omitted."""
    assert words(UNKNOWN_REASON) == "other: sun_spots"
    assert colour(UNKNOWN_REASON) not in COLOURS.values()


# ---------------------------------------------------------------------- the sums, from the ring


@given(SEEDS, st.sampled_from([ledger_history, broken_history]))
def test_the_causes_sum_to_the_share(seed: int, history: Callable[[Random, int], list[Scrape]]) -> None:
    """At every instant, with counters that restart or vanish and with unknown names."""
    ring = filled(history(Random(seed), 25))
    sums_to_the_share(lambda one: ring.evaluate(one, GRID), panels.ERROR_SHARE, panels.ERROR_PANEL.expressions)


@given(SEEDS)
def test_the_share_is_what_the_ledger_says(seed: int) -> None:
    """Counted by reasons, the share is that of the outcomes alone: no failure is missing, none counts twice."""
    history = ledger_history(Random(seed), 25)
    failed = [outcome_key("normal", one) for one in Outcome if one not in NOT_FAILED]
    ended = [outcome_key("normal", one) for one in Outcome]
    ring = filled(history)
    for expression, labels in ((panels.ERROR_SHARE, ()), (panels.ERROR_SHARE_BY_CLASS, ("normal",))):
        line = ring.evaluate(expression, GRID).line(*labels)
        assert len(line) == len(GRID.times_s)
        for at, point in enumerate(line):
            newest = len(history) - len(line) + at
            first, last = history[max(newest - 5, 0)], history[newest]
            more = sum(last[key] - first[key] for key in ended)
            bad = sum(last[key] - first[key] for key in failed)
            assert point == (None if more == 0 else pytest.approx(bad / more))


@given(st.sampled_from([reason_key("normal", UNKNOWN_REASON), outcome_key("normal", UNKNOWN_OUTCOME)]))
def test_a_new_name_is_never_omitted(key: tuple[str, tuple[tuple[str, str], ...]]) -> None:
    """A server of a later version: its new reason, or outcome, is in the share and in the chart, by its name."""
    done = outcome_key("normal", Outcome.COMPLETED)
    ring = filled([{done: 9.0 * at, key: 1.0 * at} for at in range(30)])
    assert ring.evaluate(panels.ERROR_SHARE, GRID).latest() == pytest.approx(0.1)
    assert newest_values.causes_now(reading_of(ring)) == {f"other: {dict(key[1]).popitem()[1]}": pytest.approx(0.5)}
    assert sums_to_the_share(
        lambda one: ring.evaluate(one, GRID), panels.ERROR_SHARE, panels.ERROR_PANEL.expressions
    ) == len(GRID.times_s)


def reading_of(ring: Ring) -> SourceReading:
    """Everything the overview asks for, from a ring."""
    wanted = (*panels.FACTS, *panels.CLASS_TABLE, *panels.ERROR_PANEL.expressions)
    series = {one: ring.evaluate(one, GRID) for one in wanted}
    return SourceReading(series, Health(GRID.end_s), STEP_S, "test", range_s=40.0, end_s=GRID.end_s)


# ---------------------------------------------------------------------- through the stub


def scraped(stub: StubServer, scrapes: int = 10) -> Ring:
    """A ring that scraped a stub while its world went on."""
    ring = Ring(keep_s=600.0, stale_s=3 * STEP_S)
    for at in range(scrapes):
        ring.add(GRID.end_s - (scrapes - 1 - at) * STEP_S, samples(stub.scrape().decode()))
        stub.world.step(STEP_S)
    return ring


def test_the_ends_of_the_stub_are_all_there_are() -> None:
    """The list behind the test above has every reason, and every outcome that does not follow from one."""
    assert {*ENDS} == {*Reason} | ({*Outcome} - {*REFUSED.values()})
    assert {REFUSED[end] if isinstance(end, Reason) else end for end in ENDS} == {*Outcome}


def test_all_causes_at_once(stub: StubServer) -> None:
    """Every end in one stub: each cause has its line, and together they are the share."""
    stub.world.ends_per_s = dict.fromkeys((*ENDS, UNKNOWN_REASON), 0.5)
    ring = scraped(stub)
    assert (
        sums_to_the_share(lambda one: ring.evaluate(one, GRID), panels.ERROR_SHARE, panels.ERROR_PANEL.expressions) >= 8
    )
    found: dict[str, Point] = dict(newest_values.causes_now(reading_of(ring)))
    assert {words(how) for how in (*COLOURS, UNKNOWN_REASON)} == set(found)
