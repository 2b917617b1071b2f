"""The sentences of the page Fleet: how uneven the load is, and how far the worst server is from all."""

from __future__ import annotations

from readings import reading_of

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.fleet_panels import SEATS_IMBALANCE, WAITING_IMBALANCE
from headway_dashboard.analysis.queries.metric import by_instance
from headway_dashboard.analysis.server.fleet.words import EXPRESSIONS, imbalance_words, worst_words


def test_the_server_that_has_most_is_named() -> None:
    """With its number; what is computed for none is said to be so, and not called even."""
    newest = reading_of(
        {
            SEATS_IMBALANCE: [1.5],
            WAITING_IMBALANCE: [None],
            by_instance(panels.SEATS): {("a:1",): [10], ("b:1",): [30], ("c:1",): [None]},
            by_instance(panels.QUEUED): {("a:1",): [0], ("b:1",): [1]},
        }
    )
    seats, waiting = imbalance_words(newest)
    assert seats == "Occupied seats: imbalance 1.50; most on b:1 (30)."
    assert waiting == "Waiting requests: no server has 5 or more, so that no imbalance is computed."


def test_the_merged_quantile_stands_beside_the_worst() -> None:
    """Of the servers that had first tokens."""
    of_each = by_instance(panels.TTFT[0.95])
    newest = reading_of({panels.TTFT[0.95]: [0.7], of_each: {("a:1",): [0.4], ("b:1",): [1.2], ("c:1",): [None]}})
    assert worst_words(newest) == "First token, p95: 700\u00a0ms of all, 1.2\u00a0s on b:1, the worst."


def test_without_figures_nothing_is_invented() -> None:
    """No traffic, and no servers."""
    assert worst_words(reading_of({})) == ""
    assert all("no imbalance is computed" in one for one in imbalance_words(reading_of({})))
    assert len(set(EXPRESSIONS)) == len(EXPRESSIONS)
