"""The requests of a warm-up, on objects of vLLM's shape; the real engine is tested in tests/engine."""

from __future__ import annotations

import itertools
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from headway.vllm_adapter.warmup_requests import WarmupRequests, usual_prompt
from headway_policies.engine.warmup import Stage, Warmup


class ClientError(Exception):
    """In place of VLLMClientError."""


class Engine:
    """Writes down what it is asked."""

    def __init__(self, max_model_len: int = 2048) -> None:
        self.errored = False
        self.model_config = SimpleNamespace(max_model_len=max_model_len, get_vocab_size=lambda: 1000)
        self.asked: list[tuple[int, dict[str, Any], str]] = []

    def generate(self, prompt: Any, params: Any, request_id: str) -> str:
        self.asked.append((len(prompt.prompt_token_ids), vars(params), request_id))
        return "stream"


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The few names of vLLM that are needed."""
    modules = {name: ModuleType(name) for name in ("vllm", "vllm.inputs", "vllm.sampling_params", "vllm.exceptions")}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(modules["vllm"], "SamplingParams", SimpleNamespace, raising=False)
    monkeypatch.setattr(modules["vllm"], "exceptions", modules["vllm.exceptions"], raising=False)
    monkeypatch.setattr(modules["vllm.inputs"], "TokensPrompt", SimpleNamespace, raising=False)
    monkeypatch.setattr(modules["vllm.sampling_params"], "StructuredOutputsParams", SimpleNamespace, raising=False)
    monkeypatch.setattr(modules["vllm.exceptions"], "VLLMClientError", ClientError, raising=False)
    return modules


def asked(engine: Engine, stage: Stage, index: int = 0, **keys: Any) -> tuple[int, dict[str, Any], str]:
    """What one request of this stage comes to."""
    WarmupRequests(engine).ask(stage, Warmup(**keys), index, "id")
    return engine.asked[-1]


def test_each_stage_asks_for_what_it_is_to_warm() -> None:
    """Greedy and to the full length; with logprobs; with a schema, which has an end of its own."""
    plain = {"max_tokens": 8, "temperature": 0.0}
    assert asked(Engine(), Stage.SINGLE) == (64, plain | {"ignore_eos": True}, "id")
    assert asked(Engine(), Stage.BATCH) == (64, plain | {"ignore_eos": True}, "id")
    assert asked(Engine(), Stage.LOGPROBS) == (64, plain | {"ignore_eos": True, "logprobs": 1}, "id")
    _, params, _ = asked(Engine(), Stage.JSON_SCHEMA)
    assert params.keys() == plain.keys() | {"structured_outputs"}
    assert params["structured_outputs"].json["type"] == "object"


def test_a_batch_mixes_the_usual_lengths_in_every_round_alike() -> None:
    """By the place in the batch, so that two rounds can be compared."""
    engine = Engine()
    dummies, config = WarmupRequests(engine), Warmup(prompt_tokens=(16, 300))
    for index in (0, 1, 2, 0, 1, 2):
        dummies.ask(Stage.BATCH, config, index, "id")
    assert [length for length, _, _ in engine.asked] == [16, 300, 16] * 2


@pytest.mark.parametrize(
    ("max_model_len", "keys", "length_tokens", "output_tokens"),
    [(100, {"prompt_tokens": 500}, 91, 8), (100, {"output_tokens": 500}, 1, 98), (4, {}, 1, 2), (2, {}, 1, 1)],
)
def test_no_request_is_longer_than_the_model_allows(
    max_model_len: int, keys: dict[str, Any], length_tokens: int, output_tokens: int
) -> None:
    """Prompt and answer together fit, with a token to spare where there is one."""
    length, params, _ = asked(Engine(max_model_len), Stage.SINGLE, **keys)
    assert (length, params["max_tokens"]) == (length_tokens, output_tokens)


def test_a_brief_request_is_shorter_than_a_cache_block() -> None:
    """So keeping warm leaves nothing in the prefix cache."""
    engine = Engine()
    WarmupRequests(engine).short_request("id")
    ((length, params, _),) = engine.asked
    assert (length, params["max_tokens"]) == (8, 1)


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (ClientError("This model does not support generation"), True),
        (ValueError("no such backend"), True),
        (TypeError("unexpected keyword"), True),
        (ImportError("no StructuredOutputsParams"), True),
        (_caused(RuntimeError("wrapped by vLLM"), ValueError("temperature")), True),
        (RuntimeError("engine trouble"), False),
        (_caused(RuntimeError("wrapped by vLLM"), OSError("out of memory")), False),
        (TimeoutError(), False),
    ],
    ids=str,
)
def test_a_refusal_is_distinguished_from_a_failure(error: Exception, refused: bool) -> None:
    """By the error and its cause; a dead engine refuses nothing, whatever the message."""
    engine = Engine()
    assert WarmupRequests(engine).refused(error) is refused
    engine.errored = True
    assert not WarmupRequests(engine).refused(error)


def test_a_release_without_a_name_for_refusals_has_the_plain_ones(
    monkeypatch: pytest.MonkeyPatch, vllm: dict[str, ModuleType]
) -> None:
    """An older vLLM."""
    monkeypatch.delattr(vllm["vllm.exceptions"], "VLLMClientError")
    assert WarmupRequests(Engine()).refused(ValueError())
    assert not WarmupRequests(Engine()).refused(ClientError())


@pytest.mark.parametrize("vocabulary", [2, 32, 1000, 152_000])
def test_made_up_prompts_differ_and_stay_off_the_special_tokens(vocabulary: int) -> None:
    """Between an eighth and a half of the vocabulary; two in a row begin with different tokens where there are two."""
    prompts = [usual_prompt(serial, 40, vocabulary) for serial in range(50)]
    assert all(len(prompt) == 40 for prompt in prompts)
    assert all(vocabulary // 8 <= token <= vocabulary // 2 for prompt in prompts for token in prompt)
    if vocabulary > 2:
        assert all(prompt[0] != other[0] for prompt, other in itertools.pairwise(prompts))
