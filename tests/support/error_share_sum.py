"""A check that the causes of errors sum to the error share, from any data source."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from headway_dashboard.analysis.queries.expressions import Expression, Share
from headway_dashboard.analysis.queries.model import Series


def sums_to_the_share(read: Callable[[Expression], Series], share: Expression, causes: Sequence[Expression]) -> int:
    """Compare the causes with the share at every instant; returns the number of instants that have a share."""
    assert isinstance(share, Share)
    (wholes,) = read(share.whole).lines.values() or [()]
    (shares,) = read(share).lines.values() or [[None] * len(wholes)]
    lines = [line for cause in causes for line in read(cause).lines.values()]
    compared = 0
    for at, (found, whole) in enumerate(zip(shares, wholes, strict=True)):
        known = [point for line in lines if (point := line[at]) is not None]
        if found is None or whole is None:
            assert math.fsum(known) == pytest.approx(0.0, abs=1e-12), "errors without a share"
            continue
        compared += 1
        assert 0.0 <= found <= 1.0 + 1e-12
        assert math.fsum(known) / whole == pytest.approx(found, abs=1e-9)
    return compared
