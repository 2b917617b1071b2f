"""Tests of G6 on the real engine: the reason for its misses holds, and stands beside them."""

from __future__ import annotations

from random import Random

import kv_space
import pytest
from accepted import ENGINE
from engine import PAGE
from tiers import long_form

from headway_simulator import EngineModel, simulate

#: As the first token to the last of the runs on the page suggest.
MODEL = EngineModel(0.008, 0.00027, 0.00003, max_num_seqs=kv_space.SEATS, kv_tokens=kv_space.KV_TOKENS[0])


def preempted(arm: str, number: int) -> int:
    """Of so many requests, all of which wait at the beginning."""
    requests = [kv_space._request(random) for random in [Random(1)] for _ in range(number)]
    return simulate(requests, kv_space._arms()[arm], MODEL).preemptions


@long_form("it explains a figure of a page that a commit does not measure")
def test_a_limit_by_kv_space_preempts_at_the_beginning_alone() -> None:
    """Four times the requests preempt hardly more often; with fixed seats they preempt three times as often or more."""
    few, many = (preempted("aware", number) for number in (200, 800))
    assert many < 1.2 * few
    assert preempted(f"{kv_space.SEATS}", 800) > 3 * preempted(f"{kv_space.SEATS}", 200)
    assert preempted("aware", 800) < 0.25 * preempted(f"{kv_space.SEATS}", 800)


@pytest.mark.parametrize(("name", "figure"), ENGINE, ids=str)
def test_the_misses_on_the_page_have_the_reasons_of_the_list(name: str, figure: str) -> None:
    """Each with its own."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith((f"| {name} | {figure} |", f"| {name} | {figure} ("))]
    assert line.endswith(f": {ENGINE[name, figure]} |")


def test_no_miss_on_the_page_is_without_a_reason() -> None:
    """Of any goal of the page."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if "**missed**" in line and " %): " not in line] == []
