"""Tests of the parts of ``make bench-dashboard``: what is counted of a first load, and the growth of a soak."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import dashboard_costs
import pytest
from accepted import NONE
from command import run
from goal import Goal


def test_plotly_is_left_out_of_the_first_load() -> None:
    """Every other answer counts, with what the socket brought; the largest are named."""
    traffic = dashboard_costs.Traffic()
    sizes = {"": 1000.0, "assets/plotly.min.js?v=7": 1_500_000.0, "static/index.js": 700_000.0}
    for at, (path, size) in enumerate(sizes.items()):
        traffic.asked({"requestId": f"{at}", "request": {"url": f"http://h/{path}"}})
        traffic.came({"requestId": f"{at}", "encodedDataLength": size})
    traffic.framed({"response": {"opcode": 2, "payloadData": "AAAA"}})
    traffic.framed({"response": {"opcode": 1, "payloadData": "text"}})
    assert traffic.without_plotly() == 701_007
    assert traffic.largest(1) == "plotly.min.js 1.50 MB"


def test_an_answer_in_two_parts_is_counted_twice() -> None:
    """The page and what it loads anew from the same address."""
    traffic = dashboard_costs.Traffic()
    for at in range(2):
        traffic.asked({"requestId": f"{at}", "request": {"url": "http://h/a.js"}})
        traffic.came({"requestId": f"{at}", "encodedDataLength": 10.0})
    assert traffic.bytes_by_url == {"http://h/a.js": 20}


def test_growth_is_scaled_to_half_an_hour() -> None:
    """A line through the samples, whatever they begin with."""
    points = [(5.0 * at, 2e8 + 1e4 * at) for at in range(36)]
    assert dashboard_costs.growth_mb(points) == pytest.approx(1e4 / 5 * 1800 / 1e6)


def test_further_tabs_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """One tab as it is, and the half of what two more add."""
    shares = iter((0.01, 0.04, 0.10))
    contexts: list[SimpleNamespace] = []
    on = SimpleNamespace(browser=SimpleNamespace(contexts=contexts))
    on.tab = lambda url: contexts.append(SimpleNamespace(pages=[url]))
    on.__dict__["dashboard"] = lambda: nullcontext(SimpleNamespace(pid=1, url="u"))
    monkeypatch.setattr(dashboard_costs, "bench", lambda: nullcontext(on))
    monkeypatch.setattr(dashboard_costs, "_busy_ratio", lambda pid: next(shares))
    first, further = dashboard_costs.tabs()
    assert (first.reached, further.reached) == (pytest.approx(4), pytest.approx(3))
    assert (first.met, further.met) == (True, False)
    assert len(contexts) == 3


def test_the_long_soak_runs_only_when_it_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half an hour is no part of the usual run."""

    goals = {name: lambda name=name: iter([Goal("dashboard", name, 1, 1)]) for name in ("soak", "soak-long")}
    for words, lines in (([], ["soak"]), (["--only", "soak-long"], ["soak-long"])):
        assert run(words, goals, NONE, tmp_path / "README.md", on_request=("soak-long",)) == 0
        shown = capsys.readouterr().out
        assert [name for name in goals if f"| {name} |" in shown] == lines
