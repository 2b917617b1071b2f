"""What a server lets a call ask of vLLM: log probabilities of a prompt, and grammars."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headway.vllm_adapter.engine_adapter import CallBounds, VllmAdapter
from headway.vllm_adapter.grammars.guard import GrammarTooLargeError

PROMPT = SimpleNamespace(prompt_token_ids=list(range(100)))


@pytest.fixture
def refused() -> Any:
    """vLLM's error, imported by the worker that runs these tests alone."""
    return pytest.importorskip("vllm.exceptions").VLLMValidationError


class Guard:
    """Refuses what is called hostile."""

    async def check(self, params: Any, tenant: str) -> None:
        if params.structured_outputs == "hostile":
            raise GrammarTooLargeError(f"too large for {tenant}")


def asked(logprobs: int | None = None, grammar: str | None = None) -> Any:
    return SimpleNamespace(prompt_logprobs=logprobs, structured_outputs=grammar)


@pytest.mark.parametrize(("logprobs", "passes"), [(None, True), (0, True), (5, True), (6, False), (-1, False)])
async def test_the_log_probabilities_of_a_whole_prompt_are_bounded(
    refused: Any, logprobs: int | None, passes: bool
) -> None:
    """By its tokens; -1 is a whole vocabulary. The error is vLLM's, and names the parameter."""
    check = VllmAdapter(CallBounds(prompt_logprobs=500)).check(PROMPT, asked(logprobs), "a")
    assert (check is None) is passes
    if check is not None:
        with pytest.raises(refused, match=r"at most 500 are allowed.*prompt_logprobs") as caught:
            await check()
        assert caught.value.parameter == "prompt_logprobs"


async def test_a_grammar_is_checked_where_there_is_a_guard(refused: Any) -> None:
    """For the tenant that asks; a program's own calls are not bounded."""
    guarded = VllmAdapter(CallBounds(500, Guard()))  # type: ignore[arg-type]  # what it needs of one
    assert guarded.check(PROMPT, asked(), "a") is None
    honest, hostile = (guarded.check(PROMPT, asked(grammar=name), "a") for name in ("honest", "hostile"))
    assert honest is not None
    await honest()
    assert hostile is not None
    with pytest.raises(refused, match="too large for a"):
        await hostile()
    for free in (VllmAdapter(), VllmAdapter(CallBounds(500))):
        assert free.check(PROMPT, asked(grammar="hostile"), "a") is None
