"""The sequences that an abort is about to end, as vLLM's output processor has them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headway.engine import Ended
from headway.vllm_adapter.engine_adapter import VllmAdapter


def state(name: str, tokens: int, *, computed: bool = True, cached: int = 0, counted: bool = True) -> Any:
    """The record of one sequence of the call ``a`` or ``b``."""
    stats = SimpleNamespace(num_generation_tokens=tokens) if counted else None
    return SimpleNamespace(
        external_req_id=name[0], request_id=name, prompt_len=100, is_prefilling=not computed, stats=stats,
        num_cached_tokens=cached,
    )  # fmt: skip


def engine(*states: Any) -> Any:
    """A client of an engine with these records; ``parent`` has two sequences, of which one has ended."""
    found = {one.request_id: one for one in states}
    names = {call: [one.request_id for one in states if one.external_req_id == call] for call in "ab"}
    parents = {"parent": SimpleNamespace(child_requests={"b2"})}
    processor = SimpleNamespace(request_states=found, external_req_ids=names, parent_requests=parents)
    return SimpleNamespace(output_processor=processor)


CLIENT = engine(
    state("a1", 7, cached=64), state("a2", 0, computed=False), state("b2", 3), state("b3", 1, counted=False)
)
CASES: dict[str, tuple[Any, bool, list[Ended]]] = {
    "a call, a prompt of it not computed yet": (
        "a",
        False,
        [Ended("a", 100, 7, "abort", 64), Ended("a", 0, 0, "abort")],
    ),
    "without statistics": ("b", False, [Ended("b", 100, 3, "abort")]),
    "a sequence": ("a1", True, [Ended("a", 100, 7, "abort", 64)]),
    "those of a parent that are left": (["parent"], True, [Ended("b", 100, 3, "abort")]),
    "several": (["a1", "b2"], True, [Ended("a", 100, 7, "abort", 64), Ended("b", 100, 3, "abort")]),
    "an unknown one": ("c", False, []),
    "an unknown sequence": (["c", "a"], True, []),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_dropped_is_what_vllm_has_counted(case: str) -> None:
    """A prompt from its first token on, and each token; under the id of the call."""
    ids, internal, dropped = CASES[case]
    assert list(VllmAdapter().dropped(CLIENT, ids, internal=internal)) == dropped


def test_an_engine_without_records_drops_nothing_that_is_known() -> None:
    """Such as one of another make."""
    assert list(VllmAdapter().dropped(SimpleNamespace(), "a", internal=False)) == []
