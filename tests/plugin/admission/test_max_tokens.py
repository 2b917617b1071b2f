"""Cut answers: made on a copy, and never longer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.admission.max_tokens import shortened
from headway.engine.fake import FakeParams


@given(asked=st.none() | st.integers(1, 1000), least=st.integers(0, 1000), cap=st.none() | st.integers(1, 1000))
def test_no_request_gets_more_tokens_than_asked(asked: int | None, least: int, cap: int | None) -> None:
    """The smaller of the two, with a minimum that fits, on a copy."""
    least = least if asked is None else min(least, asked)
    params = SimpleNamespace(max_tokens=asked, min_tokens=least, stop=["."])
    cut = shortened(params, cap)
    bounds = [one for one in (asked, cap) if one is not None]
    assert cut.max_tokens == min(bounds, default=None)
    assert cut.min_tokens == min([least, *bounds])
    assert cut.stop is params.stop
    assert (params.max_tokens, params.min_tokens) == (asked, least)
    assert (cut is params) == (cut == params)


@pytest.mark.parametrize("params", [FakeParams(3), SimpleNamespace(), object()], ids=["short", "pooling", "opaque"])
def test_a_request_within_the_limit_is_not_changed(params: Any) -> None:
    """The very same object."""
    assert shortened(params, 5) is params


def test_frozen_parameters_are_replaced() -> None:
    """As those of the fake engine."""
    assert shortened(FakeParams(100, n=2), 5) == FakeParams(5, n=2)


@pytest.mark.slow
def test_the_real_parameters_are_cut() -> None:
    """vLLM's own."""
    vllm = pytest.importorskip("vllm.sampling_params")
    params = vllm.SamplingParams(max_tokens=100, min_tokens=50, stop=["x"])
    cut = shortened(params, 7)
    assert (cut.max_tokens, cut.min_tokens, cut.stop) == (7, 7, ["x"])
    assert (params.max_tokens, params.min_tokens) == (100, 50)
