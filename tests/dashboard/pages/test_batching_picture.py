"""The picture of static and continuous batching, which is drawn once and for all."""

from __future__ import annotations

from xml.etree import ElementTree

from headway_dashboard.pages.engine import ALTERNATIVE, picture
from headway_simulator.studies import timeline

SVG = "{http://www.w3.org/2000/svg}"
LEFT, STEP, ROW = 56, 36, 22


def test_it_shows_what_the_simulator_does() -> None:
    """Each bar is a sequence of the simulator's run, in its seat and steps; nothing is fetched; the words agree."""
    root = ElementTree.fromstring(picture())
    bars = [[int(bar.attrib[name]) for name in ("x", "y", "width")] for bar in root.iter(f"{SVG}rect")]
    names = [one.text for one in root.iter(f"{SVG}text") if str(one.text).startswith("S")]
    for strategy in ("static", "continuous"):
        simulated = next(one for one in timeline.timelines() if one.strategy == strategy).bars
        drawn, bars = bars[: len(simulated)], bars[len(simulated) :]
        labels, names = names[: len(simulated)], names[len(simulated) :]
        top = min(y for _, y, _ in drawn)
        shown = {
            (name, (y - top) // ROW + 1, (x - LEFT) // STEP, (x - LEFT + width + 2) // STEP)
            for name, (x, y, width) in zip(labels, drawn, strict=True)
        }
        assert shown == {(bar.sequence, bar.seat, bar.begin, bar.end) for bar in simulated}
        assert f"{strategy}: {max(bar.end for bar in simulated)} steps" in ALTERNATIVE
    assert (bars, names) == ([], [])
    assert "href" not in picture()
