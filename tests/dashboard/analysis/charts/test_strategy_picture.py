"""The picture of the strategies: seven sequences on four seats."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from xml.etree import ElementTree

import pytest

from headway_dashboard.analysis.charts import strategy_picture as picture
from headway_dashboard.analysis.charts.strategy_picture import Bar
from headway_simulator.studies import timeline

SVG = "{http://www.w3.org/2000/svg}"
STRATEGIES = {"static": picture.static_bars, "continuous": picture.continuous_bars}


@pytest.mark.parametrize("name", STRATEGIES)
def test_it_shows_what_the_simulator_does(name: str) -> None:
    """The same sequence in the same seat at the same steps as in the simulator's run."""
    assert (picture.SEATS, picture.LENGTHS, picture.FLUSH_STEPS) == (
        timeline.SEATS,
        timeline.LENGTHS,
        timeline.FLUSH_STEPS,
    )
    simulated = next(one for one in timeline.timelines() if one.strategy == name)
    drawn = {(f"S{bar.sequence}", bar.seat + 1, bar.begin, bar.end) for bar in STRATEGIES[name]()}
    assert drawn == {(bar.sequence, bar.seat, bar.begin, bar.end) for bar in simulated.bars}


@pytest.mark.parametrize("bars", STRATEGIES.values(), ids=STRATEGIES)
def test_seven_sequences_share_four_seats(bars: Callable[[], list[Bar]]) -> None:
    """Each runs once, for its length, and no seat holds two at a time."""
    found = bars()
    assert [bar.end - bar.begin for bar in found] == list(picture.LENGTHS)
    assert [bar.sequence for bar in found] == list(range(1, 8))
    assert {bar.seat for bar in found} == set(range(4))
    for one, other in combinations(found, 2):
        assert one.seat != other.seat or one.end <= other.begin or other.end <= one.begin


def test_the_svg_has_every_sequence_and_seat_of_both() -> None:
    """Well-formed, with S1 to S7 and four seats for each strategy, all inside the picture, and nothing fetched."""
    text = picture.picture()
    root = ElementTree.fromstring(text)
    words = [one.text or "" for one in root.iter(f"{SVG}text")]
    for at in range(1, 8):
        assert words.count(f"S{at}") == 2
    for at in range(1, 5):
        assert words.count(f"seat {at}") == 2
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    bars = list(root.iter(f"{SVG}rect"))
    assert len(bars) == 14
    for bar in bars:
        x, y, wide, high = (float(bar.attrib[name]) for name in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + wide <= width
        assert y + high <= height
    assert "href" not in text


def test_the_picture_is_told_in_words() -> None:
    """The alternative text has the figures of both."""
    assert picture.alternative() == (
        "Seven sequences on four seats. static: 15 steps, seats empty 47% of the time; "
        "continuous: 8 steps, seats empty 0% of the time."
    )
