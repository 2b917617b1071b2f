"""Fairness and starvation, from the oldest waits and the tokens of each class."""

from __future__ import annotations

import pytest

from headway_dashboard.analysis.catalogue import palette, panels
from headway_dashboard.analysis.catalogue.priority_panels import TOKEN_SHARE, TOKEN_SHARE_PANEL
from headway_dashboard.analysis.queries.model import Grid
from headway_dashboard.analysis.server.newest_values import limited_to
from headway_dashboard.sources.ring import Ring
from headway_policies import Outcome

ON = Grid(0.0, 20.0, 2.0, 30.0)


def test_each_wait_is_compared_with_the_time_out_of_its_class() -> None:
    """A class that may wait as long as it takes has no age."""
    waits_s = {"realtime": 3.0, "normal": 15.0, "batch": 9000.0}
    timeouts_s = {"realtime": 5.0, "normal": 30.0, "other": 5.0}
    ring = Ring(keep_s=60.0, stale_s=6.0)
    ring.add(
        20.0,
        [
            ((f"headway_queue_{what}_seconds", (("class", name),)), seconds)
            for what, values in (("oldest_wait", waits_s), ("timeout", timeouts_s))
            for name, seconds in values.items()
        ],
    )
    found = ring.evaluate(panels.QUEUE_AGE_BY_CLASS, ON)
    assert {labels[0]: line[-1] for labels, line in found.lines.items()} == {"realtime": 0.6, "normal": 0.5}


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
