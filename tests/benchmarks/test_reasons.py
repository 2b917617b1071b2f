"""Tests of the reasons of ``make bench``: every accepted miss says why, with numbers of its own run."""

from __future__ import annotations

from pathlib import Path

import pytest
from accepted import SERVING
from serving import reasons
from serving.client import Answer
from serving.constants import Constants, Level
from serving.figures import judged
from serving.report import report
from serving.results import Key, Results
from tiers import long_form

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel

SLO = Slo(ttft_s=1.0, inter_token_s=0.075)
#: Slow at 64 sequences at once.
LEVELS = (Level(1, 30.0, 0.033), Level(64, 300.0, 0.21))
ARMS = {
    "W1": ("cap", "cap-double", "objective"),
    "W1-60": ("objective",),
    "W3": ("fixed-32", "sla", "objective"),
    "W6": ("unfair", "objective"),
    "lasting": ("balanced",),
}


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the model of the engine."""
    monkeypatch.setattr(reasons, "_SPAN_S", 80.0)
    monkeypatch.setattr(reasons, "_SEEDS", (1,))


def answers(name: str, good: int) -> list[Answer]:
    """Ten requests of each class, so many in time, of two tenants that are served unequally."""
    found = []
    for class_name in ("realtime", "normal"):
        for place in range(10):
            first_s = 10.5 if place < good else 12.9
            one = Answer(class_name, f"tenant {place % 2}", 8, 10.0, first_s, first_s + 0.5, 11, "completed")
            one.asked_tokens = 11 if place % 2 else 400
            found.append(one)
    return found


def missing_everything(path: Path) -> Results:
    """A run that reaches no goal: fixed limits and caps are better than what adapts."""
    found = Results(path, {"vllm": "0", "model": "m", "gpu": "", "cores": 2, "processor": "p"})
    found.constants = Constants(EngineModel(max_num_seqs=128), SLO, LEVELS)
    found.arms = {workload: {name: name for name in names} for workload, names in ARMS.items()}
    loads = {"W1": (2.0, 3.0), "W1-60": (1.5, 2.0, 3.0), "W3": (0.7, 1.5, 2.5), "W6": (3.0,), "lasting": (1.5,)}
    for workload, names in ARMS.items():
        for load in loads[workload]:
            for name in names:
                good = 8 if name in ("cap", "fixed-32", "unfair") else 4
                span_s = (10.0, 14.0 if name != "unfair" else 13.0)
                found.blocks[Key(workload, load, name, 0)] = judged(
                    answers(name, good), SLO, count_s=span_s, ceiling_per_s=9.0, client_s=0.1, disturbed=0.0
                )
    found.layer = [
        {"clients": clients, "pace_ratio": 1.0, "ttft_more_s": 0.002, "ttft_error_s": 0.003} for clients in (1, 16)
    ]
    return found


@long_form("words of a report, which make bench writes")
def test_every_accepted_miss_of_a_run_is_explained_with_its_numbers(tmp_path: Path) -> None:
    """None is left with an empty place or without a number that it quotes."""
    text = report(missing_everything(tmp_path / "run.json")).text
    missed = [row for row in text.splitlines() if "**missed**" in row]
    accepted = {key for key in SERVING if f"| {key[0]} | {key[1]}" in text}
    explained = [row for row in missed if row.rstrip(" |").partition("%)")[2].startswith(": ")]
    assert len(accepted) >= len(SERVING) - 1
    assert len(explained) >= len(accepted) - 3  # two of G1's and one of N6's are met by these figures
    assert not [row for row in explained if "nan" in row or "{" in row]


def test_what_realtime_requests_reach_alone_is_no_less_than_beside_others(tmp_path: Path) -> None:
    """On the very same model, at less goodput."""
    found = reasons.urgent_alone(missing_everything(tmp_path / "run.json"), "W1", 3.0)
    assert found["alone"] >= found["model"]
    assert 0.4 < found["goodput"] < 0.7


def test_the_error_of_several_rounds_is_smaller_than_of_one() -> None:
    """By the square root of their number."""
    one, four = ([{"ttft_error_s": 0.01}] * rounds for rounds in (1, 4))
    assert reasons.first_token_error(one)["error_ms"] == pytest.approx(10.0)
    assert reasons.first_token_error(four)["error_ms"] == pytest.approx(5.0)
