"""Fairness and starvation, from the oldest waits and the tokens of each class."""

from __future__ import annotations

import pytest

from headway_dashboard.analysis.catalogue import palette
from headway_dashboard.analysis.catalogue.priority_panels import STARVING, TOKEN_SHARE, TOKEN_SHARE_PANEL
from headway_dashboard.analysis.catalogue.thresholds import QUEUE_AGE_S
from headway_dashboard.analysis.queries.model import Grid
from headway_dashboard.analysis.server.newest_values import limited_to
from headway_dashboard.sources.ring import Ring
from headway_policies import Outcome

ON = Grid(0.0, 20.0, 2.0, 30.0)


def test_each_class_starves_by_its_own_bound() -> None:
    """The bounds are those of the alert for the usual classes, ten seconds for any other."""
    waits_s = {"realtime": 3.0, "normal": 14.0, "batch": 151.0, "gold": 10.5, "free": 9.5}
    ring = Ring(keep_s=60.0, stale_s=6.0)
    ring.add(
        20.0, [(("headway_queue_oldest_wait_seconds", (("class", name),)), wait_s) for name, wait_s in waits_s.items()]
    )
    found = ring.evaluate(STARVING, ON)
    assert {name: found.latest(name) for name in waits_s} == {
        "realtime": 1.0, "normal": 0.0, "batch": 1.0, "gold": 1.0, "free": 0.0,
    }  # fmt: skip
    assert dict(STARVING.bounds) == QUEUE_AGE_S


@pytest.fixture
def ring() -> Ring:
    """Twice as many tokens of realtime as of batch."""
    found = Ring(keep_s=60.0, stale_s=6.0)
    for turn in range(11):
        samples = {"realtime": 20.0 * turn, "batch": 10.0 * turn}
        found.add(
            2.0 * turn, [(("headway_output_tokens_total", (("class", one),)), value) for one, value in samples.items()]
        )
    return found


def test_the_shares_of_the_classes_are_of_all_tokens(ring: Ring) -> None:
    """The shares sum to one; a class filter hides a class and leaves the whole alone."""
    found = ring.evaluate(TOKEN_SHARE, ON)
    assert found.latest("realtime") == pytest.approx(2 / 3)
    assert found.latest("batch") == pytest.approx(1 / 3)
    (chosen,) = limited_to(TOKEN_SHARE_PANEL, ("batch",)).expressions
    assert ring.evaluate(chosen, ON).lines.keys() == {("batch",)}
    assert ring.evaluate(chosen, ON).latest("batch") == pytest.approx(1 / 3)


def test_every_outcome_has_words_and_a_colour() -> None:
    """An outcome that is added to the policies fails here until it is named."""
    assert set(palette.OUTCOMES) == set(Outcome)
    words, colours = zip(*palette.OUTCOMES.values(), strict=True)
    assert len(set(words)) == len(set(colours)) == len(Outcome)
