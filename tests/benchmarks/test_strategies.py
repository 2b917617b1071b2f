"""Tests of what the strategies are compared by."""

from __future__ import annotations

import pytest
from arms import MODEL
from strategies import batch_cv

from headway_policies import Ledger
from headway_simulator import Result


@pytest.mark.parametrize(("ended_s", "expected"), [(4.0, 1 / 3), (8.0, 11**0.5 / 3)], ids=["busy", "half idle"])
def test_how_steady_a_batch_is_counts_the_time(ended_s: float, expected: float) -> None:
    """Four sequences for two seconds and eight for two; an idle engine has none."""
    result = Result(MODEL, [], Ledger([]), ended_s=ended_s, batches={4: (10, 2.0), 8: (1, 2.0)})
    assert batch_cv(result) == pytest.approx(expected)
    result.batches = {4: (1, ended_s)}
    assert batch_cv(result) == pytest.approx(0.0, abs=1e-6)
