"""Tests of the parts of ``make bench-front``: what a request costs is told from what its tokens cost."""

from __future__ import annotations

import front_costs
import pytest


def test_a_request_and_a_token_are_told_apart() -> None:
    """A request of 1 ms and 0.1 ms a token, on a server that needs 0.2 ms for one; the first token 2 ms later."""

    def block(requests: int, tokens: int, first_s: float) -> front_costs.Block:
        front_s, server_s = 1e-3 * requests + 1e-4 * tokens, 2e-4 * tokens
        return front_costs.Block(requests, tokens, tokens, first_s, front_s, server_s, 1.0)

    found = front_costs.cost(block(200, 900, 0.1), block(80, 5000, 0.1), block(200, 900, 0.5), block(80, 5000, 0.102))
    assert found.request_s == pytest.approx(1e-3)
    assert found.token_s == pytest.approx(1e-4)
    assert found.server_s == pytest.approx(2e-4)
    assert found.later_s == pytest.approx(2e-3)
