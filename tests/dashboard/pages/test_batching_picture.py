"""The picture of static, dynamic and continuous batching, which ``make reference`` draws from the simulator."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

from headway_dashboard.pages.engine import ALTERNATIVE, picture
from headway_simulator.studies.animation import LEFT, ROW, STEP
from headway_simulator.studies.timeline import SEATS, timelines

SVG = "{http://www.w3.org/2000/svg}"


def test_it_shows_what_the_simulator_does() -> None:
    """Each cell is a step of a seat in the simulator's run, and appears in its turn; nothing is fetched; the words and
    the page agree.
    """
    root = ElementTree.fromstring(picture())
    cells = list(root.iter(f"{SVG}g"))
    for timeline in timelines():
        mine, cells = cells[: SEATS * timeline.steps], cells[SEATS * timeline.steps :]
        top = min(int(one[0].attrib["y"]) for one in mine)
        kinds: dict[tuple[int, int], str] = {}
        for one in mine:
            step, seat = (int(one[0].attrib["x"]) - LEFT) // STEP, (int(one[0].attrib["y"]) - top) // ROW + 1
            kinds[seat, step] = one[0].attrib["class"]
            assert one.attrib["style"] == f"animation-delay: {0.4 * step:.1f}s"
        for bar in timeline.bars:
            shown = [kinds.pop((bar.seat, step)) for step in range(bar.begin, bar.end)]
            assert shown == ["prompt", *["token"] * (len(shown) - 2), "end"]
        assert set(kinds.values()) <= {"idle"}
        names = Counter(one[1].text for one in mine if len(one) > 1)
        assert names == Counter(bar.sequence for bar in timeline.bars)
        assert timeline.words in ALTERNATIVE
    assert (cells, "href" in picture()) == ([], False)
