"""What each class was served, and whether that is in the order of the classes."""

from __future__ import annotations

import pytest

from headway_simulator import EngineModel, Request, simulate
from headway_tools.demo.overload.shares import MARGIN, ClassShare, by_clients, by_simulation, out_of_order
from headway_tools.load.served import COMPLETED, FAILED, REFUSED, Served

SENT = {"realtime": 3, "batch": 2, "normal": 0}
SERVED = [
    Served("realtime", COMPLETED, 0.5),
    Served("realtime", COMPLETED, 0.6),
    Served("realtime", COMPLETED, None),
    Served("batch", REFUSED),
    Served("batch", FAILED, 0.1),
]


def test_in_time_is_a_first_token_within_the_objective() -> None:
    """At the objective is in time; without a token, later, refused or failed is not."""
    assert by_clients(SENT, SERVED, {"realtime": 2}, {"realtime": 0.5, "batch": 9.0}) == [
        ClassShare("realtime", 3, 3, 2, 1, 0.5),
        ClassShare("batch", 2, 0, 0, 0, 9.0),
        ClassShare("normal", 0, 0, 0, 0, None),
    ]


def test_without_an_objective_all_that_is_served_is_in_time() -> None:
    """Nothing can be missed."""
    assert by_clients(SENT, SERVED, {"realtime": 2}, {"realtime": None})[0] == ClassShare("realtime", 3, 3, 2, 3, None)


def test_a_simulated_run_is_judged_like_the_real_one() -> None:
    """Two at once on an engine of one sequence: the second is served, but late and after the overload."""
    model = EngineModel(base_s=0.1, seat_s=0.0, prefill_s=0.0, max_num_seqs=1)
    requests = [Request(0.0, "normal", 8, 4, 4), Request(0.0, "realtime", 8, 4, 4)]
    visits = simulate(requests, None, model).visits
    assert by_simulation(visits, ("realtime", "normal"), 0.6, {"realtime": 0.3, "normal": 0.3}) == [
        ClassShare("realtime", 1, 1, 0, 0, 0.3),
        ClassShare("normal", 1, 1, 1, 1, 0.3),
    ]


@pytest.mark.parametrize(("less", "words"), [(0, []), (2, []), (3, ["served meanwhile: realtime 97%, batch 100%"])])
def test_a_less_urgent_class_may_be_ahead_by_chance_only(less: int, words: list[str]) -> None:
    """Within the margin, and not beyond it."""
    assert MARGIN == 0.02
    shares = [ClassShare("realtime", 100, 100, 100 - less, 50, 1.0), ClassShare("batch", 100, 100, 100, 50, 1.0)]
    assert out_of_order(shares, 40.0) == words


@pytest.mark.parametrize(
    ("objective_s", "words"), [(39.0, ["in time: normal 50%, batch 100%"]), (60.0, []), (None, [])]
)
def test_a_patient_class_may_be_served_after_the_overload(objective_s: float | None, words: list[str]) -> None:
    """Its objective shows the order only where it has to be kept while the overload lasts."""
    shares = [ClassShare("normal", 100, 60, 55, 50, 0.4), ClassShare("batch", 100, 100, 20, 100, objective_s)]
    assert out_of_order(shares, 40.0) == words


def test_a_class_that_sent_nothing_is_not_behind() -> None:
    """There is nothing that it was refused."""
    assert out_of_order([ClassShare("realtime", 0, 0, 0, 0, 1.0), ClassShare("batch", 9, 9, 9, 9, 1.0)], 40.0) == []
