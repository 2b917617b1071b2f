"""The facts of vLLM that the port reads, on objects of vLLM's shape; the real engine is tested in tests/engine."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from headway.engine.port import Ended, EngineSettings, PlainAdapter, prompt_tokens
from headway.errors import refusal
from headway.vllm_adapter.engine_adapter import VllmAdapter, _error_class, _retryable_error
from headway_policies import Block, Load, Reason, Usage


class Notes:
    """A listener that records its calls."""

    def __init__(self) -> None:
        self.steps: list[tuple[Load | None, int, list[Ended]]] = []

    def step(self, load: Load | None, sequences: int, ended: Sequence[Ended]) -> None:
        self.steps.append((load, sequences, list(ended)))


def iteration(**changed: Any) -> SimpleNamespace:
    """vLLM's IterationStats of a step with three decoding sequences, a prefill and an end."""
    usual = {
        "inter_token_latencies_iter": [0.02, 0.03, 0.04],
        "time_to_first_tokens_iter": [0.5],
        "num_prompt_tokens": 900,
        "prompt_token_stats": SimpleNamespace(computed=700, total=900),
        "num_preempted_reqs": 2,
        "finished_requests": [SimpleNamespace(request_id="a", num_prompt_tokens=10, num_generation_tokens=20)],
    }
    return SimpleNamespace(**(usual | changed))


SCHEDULER = SimpleNamespace(num_running_reqs=5, num_waiting_reqs=1, kv_cache_usage=0.25)
CACHE = SimpleNamespace(kv_cache_size_tokens=None, num_gpu_blocks=None, block_size=16)


def load_of(logger_class: Any, scheduler: Any, iterations: Any) -> Load:
    """The load of a step that has one."""
    load, _, _ = record(logger_class, scheduler, iterations)
    assert load is not None
    return load


def record(
    logger_class: Any, scheduler: Any, iterations: Any, cache: Any = CACHE
) -> tuple[Load | None, int, list[Ended]]:
    notes = Notes()
    logger = logger_class(SimpleNamespace(cache_config=cache))
    logger.record(scheduler, iterations)  # no listener yet
    logger.listener = notes
    logger.record(scheduler, iterations)
    (step,) = notes.steps
    return step


def test_a_step_becomes_a_load(logger_class: Any) -> None:
    """Mean time between tokens, prompt tokens really computed, first tokens, preemptions, KV use; and each end."""
    cache = SimpleNamespace(kv_cache_size_tokens=None, num_gpu_blocks=100, block_size=16)
    load, sequences, ended = record(logger_class, SCHEDULER, iteration(), cache)
    assert load == Load(5, 1, 0.25, inter_token_s=pytest.approx(0.03), prefill_tokens=700, preemptions=2,
                        kv_capacity_tokens=1600, first_tokens=1)  # fmt: skip
    assert sequences == 5
    assert ended == [Ended("a", 10, 20)]


def test_a_step_reports_what_the_prefix_cache_had(logger_class: Any) -> None:
    """Prompt tokens that were looked for and found, and whether the cache was emptied; nothing where it says none."""
    stats = SimpleNamespace(queries=1000, hits=640, reset=True)
    load = load_of(logger_class, SimpleNamespace(**vars(SCHEDULER), prefix_cache_stats=stats), iteration())
    assert (load.prefix_queried_tokens, load.prefix_hit_tokens, load.prefix_cleared) == (1000, 640, True)
    load = load_of(logger_class, SCHEDULER, iteration())
    assert (load.prefix_queried_tokens, load.prefix_hit_tokens, load.prefix_cleared) == (0, 0, False)


def test_a_step_without_a_second_token_has_no_time_between_tokens(logger_class: Any) -> None:
    """None, and not 0: nothing was measured."""
    load = load_of(logger_class, SCHEDULER, iteration(inter_token_latencies_iter=[]))
    assert load.inter_token_s is None


def test_a_step_says_how_many_had_their_first_token(logger_class: Any) -> None:
    """None in a step without output, such as the first part of a long prompt; unknown where a version does not say."""
    older = iteration()
    del older.time_to_first_tokens_iter
    for iterations, first_tokens in ((iteration(time_to_first_tokens_iter=[1, 2]), 2), (None, 0), (older, None)):
        load = load_of(logger_class, SCHEDULER, iterations)
        assert load.first_tokens == first_tokens


def test_a_step_says_how_many_are_deferred_of_those_that_wait(logger_class: Any) -> None:
    """vLLM counts them apart; none where a version does not."""
    load = load_of(logger_class, SimpleNamespace(**vars(SCHEDULER), num_skipped_waiting_reqs=2), iteration())
    assert (load.waiting, load.deferred) == (3, 2)
    load = load_of(logger_class, SCHEDULER, iteration())
    assert (load.waiting, load.deferred) == (1, 0)


@pytest.mark.parametrize(
    ("quantization", "kv_type", "expected"),
    [
        (None, "auto", EngineSettings("bfloat16", "none", "bfloat16", 4096)),
        ("awq", "fp8", EngineSettings("bfloat16", "awq", "fp8", 4096)),
    ],
)
def test_the_settings_that_decide_how_many_sequences_fit(
    quantization: str | None, kv_type: str, expected: EngineSettings
) -> None:
    """Types as words; a KV cache of type auto has that of the model; nothing is known of an engine without them."""
    model = SimpleNamespace(dtype="torch.bfloat16", quantization=quantization, max_model_len=4096)
    config = SimpleNamespace(model_config=model, cache_config=SimpleNamespace(cache_dtype=kv_type))
    assert VllmAdapter().settings(SimpleNamespace(vllm_config=config)) == expected
    config.lora_config = SimpleNamespace(max_loras=2)
    assert VllmAdapter().settings(SimpleNamespace(vllm_config=config)) == replace(expected, max_loras=2)
    config.parallel_config = SimpleNamespace(data_parallel_size=3)  # each rank runs so many
    assert VllmAdapter().settings(SimpleNamespace(vllm_config=config)) == replace(expected, max_loras=6)
    assert VllmAdapter().settings(SimpleNamespace()) == PlainAdapter().settings(object()) == EngineSettings()


class Hashed(SimpleNamespace):
    """A configuration as vLLM hashes it."""

    def compute_hash(self) -> str:
        return str(self.hashed)


def test_a_fingerprint_stands_for_model_and_flags() -> None:
    """The same for the same, another one where anything differs, none for an engine without a configuration."""

    def fingerprint(hashed: str = "a", **model: Any) -> str:
        usual = {"model": "m", "dtype": "torch.bfloat16", "enforce_eager": False, "max_model_len": 4096}
        config = Hashed(hashed=hashed, model_config=SimpleNamespace(**(usual | model)))
        return VllmAdapter().fingerprint(SimpleNamespace(vllm_config=config))

    others = [fingerprint("b"), *(fingerprint(**change) for change in ({"model": "n"}, {"enforce_eager": True}))]
    assert fingerprint() == fingerprint()
    assert len({fingerprint(), *others}) == 4
    assert all(len(other) == 64 and other.isalnum() for other in others)
    assert VllmAdapter().fingerprint(SimpleNamespace()) == PlainAdapter().fingerprint(object()) == ""


@pytest.mark.parametrize(
    ("paused", "asleep", "expected"),
    [
        (False, False, set()),
        (True, False, {Block.ENGINE_PAUSED}),
        (True, True, {Block.ENGINE_PAUSED, Block.ENGINE_ASLEEP}),
        (False, True, {Block.ENGINE_ASLEEP}),
    ],
    ids=["runs", "paused", "asleep", "resumed while asleep"],
)
async def test_the_engine_s_own_word_says_whether_it_is_paused_or_asleep(
    paused: bool, asleep: bool, expected: set[Block]
) -> None:
    """The scheduler and the memory each count: vLLM itself calls a paused engine asleep."""
    core = importlib.import_module("headway.vllm_adapter.engine_core_hooks")
    engine_core = SimpleNamespace(
        is_scheduler_paused=lambda: paused, model_executor=SimpleNamespace(is_sleeping=asleep)
    )

    async def call(name: str) -> list[str]:
        assert name == core.GET_DISPATCH_BLOCKS
        return list(core.get_dispatch_blocks(engine_core))

    client = SimpleNamespace(engine_core=SimpleNamespace(call_utility_async=call))
    assert (await VllmAdapter().ping(client)).blocks == expected


@pytest.mark.parametrize("argued", [True, False])
def test_only_a_process_that_starts_an_engine_is_watched(monkeypatch: pytest.MonkeyPatch, argued: bool) -> None:
    """Once, before the first engine process; not in processes that only load the plugin, as those of vLLM do."""
    names = ("engine_core_hooks", "process.parent_watch")
    core, parent_watch = (importlib.import_module(f"headway.vllm_adapter.{name}") for name in names)
    began: list[str] = []
    monkeypatch.setattr(parent_watch, "watch_this_process", lambda: began.append("watch"))
    monkeypatch.setattr(core, "prepare_progress", lambda engine: began.append(f"prepare {engine}"))
    monkeypatch.setattr(core, "yield_cpu", lambda: None)
    for name in ("vllm.v1.executor.multiproc_executor", "vllm.v1.engine.core", "vllm.engine.arg_utils"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    utils: Any = ModuleType("vllm.v1.engine.utils")

    class Manager:
        def __init__(self, what: str, *, vllm_config: Any) -> None:
            began.append(what)

    utils.CoreEngineProcManager = Manager
    monkeypatch.setitem(sys.modules, "vllm.v1.engine.utils", utils)
    coordinator: Any = ModuleType("vllm.v1.engine.coordinator")
    coordinator.DPCoordinator = type("DPCoordinator", (), {})
    monkeypatch.setitem(sys.modules, "vllm.v1.engine.coordinator", coordinator)
    if argued:
        monkeypatch.setitem(sys.modules, "vllm.engine.arg_utils", ModuleType("vllm.engine.arg_utils"))
    core.register()
    core.register()
    assert began == []
    Manager("start", vllm_config=SimpleNamespace(instance_id="a1b2c"))
    assert began == (["watch", "prepare a1b2c", "start"] if argued else ["start"])


def test_what_a_version_lacks_is_omitted(logger_class: Any) -> None:
    """Statistics of an older vLLM, of one half only, or none at all break nothing."""
    bare = SimpleNamespace(num_prompt_tokens=9, finished_requests=[SimpleNamespace(e2e_latency=1.0)])
    load, sequences, ended = record(logger_class, SCHEDULER, bare)
    assert load == Load(5, 1, 0.25, prefill_tokens=9)
    assert (sequences, ended) == (5, [])
    assert record(logger_class, None, iteration())[:2] == (None, 4)
    assert record(logger_class, SCHEDULER, None)[0] == Load(5, 1, 0.25, first_tokens=0)


def test_steps_are_heard_through_one_logger_and_not_from_an_engine_without_statistics(logger_class: Any) -> None:
    """One is added where the plugin put none in; vLLM has no manager of loggers where statistics are off."""
    notes, present = Notes(), logger_class(SimpleNamespace())
    for had in ([present], []):
        manager = SimpleNamespace(stat_loggers=list(had))
        engine = SimpleNamespace(logger_manager=manager, vllm_config=SimpleNamespace(cache_config=CACHE))
        assert VllmAdapter().listen(engine, notes) is True
        (logger,) = manager.stat_loggers
        assert logger.listener is notes
        assert had in ([], [logger])
    assert VllmAdapter().listen(SimpleNamespace(logger_manager=None), notes) is False


def test_the_kv_capacity_is_read_once_it_is_known(logger_class: Any) -> None:
    """The engine measures its memory after the logger was made; then it does not change."""
    cache = SimpleNamespace(kv_cache_size_tokens=None, num_gpu_blocks=None, block_size=16)
    logger, notes = logger_class(SimpleNamespace(cache_config=cache)), Notes()
    logger.listener = notes
    for size_tokens in (None, 5000, 9999):
        cache.kv_cache_size_tokens = size_tokens
        logger.record(SCHEDULER, iteration())
    assert [load.kv_capacity_tokens for load, _, _ in notes.steps if load] == [None, 5000, 5000]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("x" * 40, 10),
        ([1, 2, 3], 3),
        ({"prompt": "x" * 40}, 10),
        ({"prompt_token_ids": [1, 2], "prompt": "x" * 40}, 2),
        ({"prompt_token_ids": None, "prompt": "x" * 8}, 2),
        ({"prompt_embeds": object()}, 0),
        (object(), 0),
        (None, 0),
    ],
)
def test_a_prompt_has_the_length_of_its_tokens_or_of_its_text(prompt: Any, expected: int) -> None:
    """Tokens are counted, text is estimated, of anything else nothing is claimed."""
    assert prompt_tokens(prompt) == expected
    assert PlainAdapter().size(prompt, SimpleNamespace(max_tokens=7)) == (expected, 7)
    assert VllmAdapter().size(prompt, SimpleNamespace()) == (expected, None)


def test_a_rendered_request_of_vllms_own_has_its_tokens() -> None:
    """An EngineCoreRequest is no dictionary."""
    assert VllmAdapter().size(SimpleNamespace(prompt_token_ids=[1] * 5), SimpleNamespace(max_tokens=3)) == (5, 3)


def output(sequences: int, generated: int | None) -> SimpleNamespace:
    """The last output of a generation."""
    stats = None if generated is None else SimpleNamespace(num_generation_tokens=generated)
    parts = [SimpleNamespace(finish_reason="stop") for _ in range(sequences)]
    return SimpleNamespace(outputs=parts, metrics=stats, prompt_token_ids=[1, 2, 3])


def test_usage_comes_from_the_last_output_where_that_is_certain() -> None:
    """One sequence with statistics; of several, of none, and of a vector nothing is claimed."""
    kind = VllmAdapter()
    assert kind.usage(output(1, 20), 1) == Usage(3, 20)
    assert kind.usage(output(1, 20), 2) is None, "of a stream"
    assert kind.usage(output(2, 20), 2) is None
    assert kind.usage(output(1, None), 1) is None
    vector = SimpleNamespace(outputs=SimpleNamespace(data=object()), prompt_token_ids=[1], finished=True)
    assert kind.usage(vector, 1) is None
    assert kind.unfinished(vector) is False


@pytest.mark.parametrize(("name", "expected"), [("FINAL_ONLY", True), ("DELTA", False), ("CUMULATIVE", False)])
def test_a_whole_answer_emits_no_tokens(name: str, expected: bool) -> None:
    """The answer gives one output, its last."""
    assert VllmAdapter().unstreamed(SimpleNamespace(output_kind=SimpleNamespace(name=name))) is expected
    assert VllmAdapter().unstreamed(SimpleNamespace()) is False


def test_how_far_a_silent_call_is_stands_in_the_engines_books() -> None:
    """The sum over its sequences, under whatever ids the engine gave them; None when it keeps no records."""
    states = {
        f"{name}-x": SimpleNamespace(stats=SimpleNamespace(num_generation_tokens=n)) for name, n in (("0", 4), ("1", 5))
    }
    processor = SimpleNamespace(external_req_ids={"a": ["0-x", "1-x", "gone"]}, request_states=states)
    engine = SimpleNamespace(output_processor=processor)
    assert VllmAdapter().tokens(engine, "a") == 9
    assert VllmAdapter().tokens(engine, "b") == 0
    assert VllmAdapter().tokens(SimpleNamespace(), "a") is None


@pytest.mark.slow
@pytest.mark.parametrize("reason", list(Reason))
def test_a_refusal_in_vllms_terms_says_the_same(reason: Reason) -> None:
    """Its text, for whichever handler or log asks for it, its message and its status."""
    pytest.importorskip("vllm")
    plain = refusal(reason, 7)
    error: Any = VllmAdapter().error(plain)
    assert str(error) == error.message == str(plain)
    assert (error.reason, error.retry_after_s, error.retry) == (reason, 7, plain.retry)
    assert error.status_code == error.http_status == plain.status


def test_a_release_before_0_29_keeps_the_error_of_streams_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is one of that class there, so that vLLM logs no traceback of it."""
    exceptions = pytest.importorskip("vllm.exceptions")
    for name in ("GracefulHTTPError", "GenerationError"):
        monkeypatch.delattr(exceptions, name, raising=False)
    older: Any = ModuleType("vllm.entrypoints.openai.engine.protocol")
    older.GenerationError = type("GenerationError", (Exception,), {})
    monkeypatch.setitem(sys.modules, older.__name__, older)
    made = _error_class.__wrapped__()
    assert issubclass(made, older.GenerationError)
    assert made(refusal(Reason.QUEUE_FULL, 3)).status_code == 429


def test_a_refusal_by_a_paused_engine_is_known_where_a_release_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its class, from 0.33 on; no other error of vLLM's is one, and before there is none."""
    exceptions = pytest.importorskip("vllm.exceptions")
    retryable = getattr(exceptions, "RetryableRequestError", None)
    if retryable is not None:
        assert VllmAdapter().takes_later(retryable("Generation is paused."))
    assert not VllmAdapter().takes_later(RuntimeError("no"))
    monkeypatch.delattr(exceptions, "RetryableRequestError", raising=False)
    assert _retryable_error.__wrapped__() is None
