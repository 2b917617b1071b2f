"""The steps of a single API server: what EngineCore has written down, with the ends that vLLM reports."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from progress_file import prepared_file

from headway.engine import Ended
from headway.vllm_adapter.process.progress import VARIABLE
from headway.vllm_adapter.process.step_ring import RING_STEPS, EngineStep, StepRing
from headway_policies import Load
from headway_policies.limits import EngineFit

CHUNK, PROMPT = 128, 1024


class Notes:
    """A listener that records its calls."""

    def __init__(self) -> None:
        self.steps: list[tuple[Load | None, int, list[str]]] = []
        self.waits, self.times_heard = False, 0

    def heard(self) -> bool:
        self.times_heard += 1
        return not self.waits

    def step(self, load: Load | None, sequences: int, ended: Sequence[Ended]) -> None:
        self.steps.append((load, sequences, [one.request_id for one in ended]))

    def prompts(self) -> list[int | None]:
        """The prompt tokens of each step, None where it has no load."""
        return [load and load.prefill_tokens for load, _, _ in self.steps]


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StepRing:
    """The writer's side, of a file as the server prepares it, with a step of before."""
    found = StepRing(prepared_file(tmp_path, monkeypatch), 0)
    found.write(step(99))
    return found


def step(prompt_tokens: int, step_s: float = 0.02) -> EngineStep:
    """A step with eight sequences that decode."""
    return EngineStep(step_s, 0.25, 8, 1, 0, prompt_tokens, 0, 0, 9)


def vllms(prompt_tokens: int, *ended: str, step_s: float = 0.02, queries: int = 0) -> tuple[Any, Any]:
    """What vLLM says of such a step."""
    numbers = {"num_running_reqs": 8, "num_waiting_reqs": 1, "kv_cache_usage": 0.25}
    prefixes = SimpleNamespace(queries=queries, hits=0, reset=False)
    finished = [SimpleNamespace(request_id=one, num_prompt_tokens=1, num_generation_tokens=1) for one in ended]
    counted = {"inter_token_latencies_iter": [step_s] * 8, "time_to_first_tokens_iter": []}
    tokens = SimpleNamespace(computed=prompt_tokens)
    return (
        SimpleNamespace(**numbers, prefix_cache_stats=prefixes),
        SimpleNamespace(**counted, finished_requests=finished, prompt_token_stats=tokens, num_preempted_reqs=0),
    )


def listened(logger_class: Any, ranks: int = 1, clock: Callable[[], float] = lambda: 0.0) -> tuple[Any, Notes]:
    """A logger with its listener."""
    cache = SimpleNamespace(kv_cache_size_tokens=800)
    logger, notes = logger_class(SimpleNamespace(cache_config=cache), range(ranks), clock), Notes()
    logger.listen(notes)
    return logger, notes


def test_a_step_is_what_the_engine_has_written(logger_class: Any, ring: StepRing) -> None:
    """With the ends and the prefix cache that vLLM reports; a step before the listener's time is none."""
    logger, notes = listened(logger_class)
    ring.write(step(CHUNK))
    logger.record(*vllms(0, "a", queries=50))
    ((load, sequences, ended),) = notes.steps
    expected = Load(8, 1, 0.25, 0.02, CHUNK, kv_capacity_tokens=800, prefix_queried_tokens=50, first_tokens=0)
    assert (load, sequences, ended) == (expected, 9, ["a"])


def test_steps_that_are_ahead_of_vllms_records_count_once(logger_class: Any, ring: StepRing) -> None:
    """All with the first record, ends and prefixes each with its own."""
    logger, notes = listened(logger_class)
    for tokens in (1, 2, 3):
        ring.write(step(tokens))
    for number, name in enumerate(("a", "b", "c")):
        logger.record(*vllms(0, name, queries=10 * number))
    assert [(load and load.prefill_tokens, ended) for load, _, ended in notes.steps] == [
        (1, []), (2, []), (3, ["a"]), (None, ["b"]), (None, ["c"]),
    ]  # fmt: skip
    ring.write(step(4))
    logger.record(*vllms(0))
    assert notes.steps[-1][0] is not None
    assert (notes.steps[-1][0].prefill_tokens, notes.steps[-1][0].prefix_queried_tokens) == (4, 30)


def test_vllm_counts_once_the_engine_has_given_up_writing(logger_class: Any, ring: StepRing) -> None:
    """The step in which it gave up included."""
    logger, notes = listened(logger_class)
    ring.write(step(4))
    logger.record(*vllms(0))
    ring.close()
    for tokens in (5, 6):
        logger.record(*vllms(tokens))
    assert notes.prompts() == [4, 5, 6]


@pytest.mark.parametrize("gave_up", [False, True])
def test_a_new_engine_is_read_whatever_the_one_before_did(logger_class: Any, ring: StepRing, gave_up: bool) -> None:
    """The old engine's rest is dropped, vLLM counts until the new one writes, and then its steps are the ones."""
    logger, notes = listened(logger_class)
    for tokens in (1, 2, 3):
        ring.write(step(tokens))
    logger.record(*vllms(0))
    if gave_up:
        ring.close()
    else:
        ring.write(step(4))
    logger.forget_loads()
    logger.record(*vllms(5))
    new = StepRing(Path(os.environ[VARIABLE]), 0)
    new.write(step(6))
    logger.record(*vllms(0))
    logger.record(*vllms(0))
    assert notes.prompts() == [1, 2, 3, 5, 6, None]


def test_a_reader_that_is_a_whole_ring_behind_goes_on_with_the_newer_steps(logger_class: Any, ring: StepRing) -> None:
    """Overwritten steps are lost, and vLLM counts none of them."""
    logger, notes = listened(logger_class)
    ring.write(step(1))
    logger.record(*vllms(0))
    for tokens in range(2, 2 * RING_STEPS):
        ring.write(step(tokens))
    logger.record(*vllms(7))
    assert notes.prompts()[-1] == 2 * RING_STEPS - 1
    assert notes.prompts()[1:] == list(range(notes.prompts()[1], 2 * RING_STEPS))
    assert len(notes.prompts()) > RING_STEPS // 2


def test_first_tokens_are_those_that_vllm_counts(logger_class: Any, ring: StepRing) -> None:
    """Each once, with the last step of the next report: the engine takes a prompt of one token for one that decodes."""
    logger, notes = listened(logger_class)
    for _ in range(3):
        ring.write(step(1)._replace(first_tokens=5))
    for first_tokens in (1, 2, 4):
        scheduler, iteration = vllms(0)
        iteration.time_to_first_tokens_iter = [0.1] * first_tokens
        logger.record(scheduler, iteration)
    ring.write(step(1))
    logger.record(*vllms(0))
    assert [load.first_tokens for load, _, _ in notes.steps if load] == [0, 0, 1, 6]


def decoded(ring: StepRing, logger: Any, *ended: str, running: int = 8, step_s: float = 0.02, **said: Any) -> None:
    """The engine makes a step in which all decode, and vLLM reports it."""
    ring.write(EngineStep(step_s, 0.25, running, 0, 0, 0, 0, 0, running + len(ended)))
    scheduler, iteration = vllms(0, *ended)
    scheduler.num_waiting_reqs, scheduler.num_skipped_waiting_reqs, scheduler.num_running_reqs = 0, 0, running
    for name, value in said.items():
        setattr(scheduler if hasattr(scheduler, name) else iteration, name, value)
    logger.record(scheduler, iteration)


def test_steps_that_are_alike_are_reported_together(logger_class: Any, ring: StepRing) -> None:
    """Eight at the most, as one of their mean time: none is lost, and the listener hears of each."""
    logger, notes = listened(logger_class)
    for number in range(17):
        decoded(ring, logger, step_s=0.02 + 0.001 * (number % 2))
    assert [(load and load.steps, sequences) for load, sequences, _ in notes.steps] == [(1, 8), (8, 8), (8, 8)]
    assert [load.inter_token_s for load, _, _ in notes.steps[1:] if load] == [pytest.approx(0.0205)] * 2
    assert notes.times_heard == 14


@pytest.mark.parametrize(
    "said",
    [
        {"num_running_reqs": 7},
        {"num_waiting_reqs": 1},
        {"num_skipped_waiting_reqs": 1},
        {"time_to_first_tokens_iter": [0.1]},
        {"num_preempted_reqs": 1},
        {"prefix_cache_stats": SimpleNamespace(queries=5, hits=0, reset=False)},
        {"prefix_cache_stats": SimpleNamespace(queries=0, hits=0, reset=True)},
    ],
    ids=lambda said: next(iter(said)),
)
def test_what_happens_is_reported_at_once(logger_class: Any, ring: StepRing, said: dict[str, Any]) -> None:
    """After the steps that were kept, each in its place."""
    logger, notes = listened(logger_class)
    for _ in range(4):
        decoded(ring, logger)
    assert len(notes.steps) == 1
    decoded(ring, logger, **said)
    assert sum(load.steps for load, _, _ in notes.steps if load) == 5


def test_an_end_is_reported_at_once_and_last(logger_class: Any, ring: StepRing) -> None:
    """The steps before it had one sequence more."""
    logger, notes = listened(logger_class)
    for _ in range(4):
        decoded(ring, logger)
    decoded(ring, logger, "a", running=7)
    assert [(load and load.running, load and load.steps, ended) for load, _, ended in notes.steps] == [
        (8, 1, []), (8, 3, []), (7, 1, ["a"]),
    ]  # fmt: skip


def test_no_step_is_kept_while_a_request_waits_or_for_long(logger_class: Any, ring: StepRing) -> None:
    """The request may be dispatched for what it tells; and slow steps are reported one by one."""
    times_s = iter([0.0, 0.05, 0.12, 0.12, *(0.5 * number for number in range(1, 20))])
    logger, notes = listened(logger_class, clock=lambda: next(times_s))
    for _ in range(3):
        decoded(ring, logger)
    assert [load and load.steps for load, _, _ in notes.steps] == [1, 2]
    for _ in range(3):
        decoded(ring, logger)
    assert len(notes.steps) == 5
    logger, notes = listened(logger_class)
    notes.waits = True
    for _ in range(3):
        decoded(ring, logger)
    assert len(notes.steps) == 3


def test_a_version_that_says_less_has_each_step_reported(logger_class: Any, ring: StepRing) -> None:
    """What it does not say may have happened."""
    logger, notes = listened(logger_class)
    for _ in range(3):
        ring.write(step(0))
        logger.record(SimpleNamespace(num_running_reqs=8, num_waiting_reqs=0), SimpleNamespace())
    assert len(notes.steps) == 3


def test_a_rank_that_writes_nothing_is_counted_by_vllm(logger_class: Any, ring: StepRing) -> None:
    """As one on another machine; the load is that of both."""
    logger, notes = listened(logger_class, ranks=2)
    logger.record(*vllms(3), engine_idx=1)
    ring.write(step(4))
    logger.record(*vllms(0), engine_idx=0)
    assert [(load and load.prefill_tokens, load and load.running) for load, _, _ in notes.steps] == [(3, 16), (4, 16)]


def test_a_prompt_in_chunks_costs_what_it_takes(logger_class: Any, ring: StepRing) -> None:
    """By vLLM's count, which has all of it in the last step, the fit takes the chunks for a slower engine."""
    logger, notes = listened(logger_class)
    fits = {"written": EngineFit(), "counted": EngineFit()}
    token_s = 50e-6
    for number in range(600):
        chunk = CHUNK if number % 20 < PROMPT // CHUNK else 0
        whole = PROMPT if number % 20 == PROMPT // CHUNK - 1 else 0
        took_s = 0.01 + token_s * chunk
        ring.write(step(chunk, took_s))
        logger.record(*vllms(whole, step_s=took_s))
        load = notes.steps[-1][0]
        assert load is not None
        fits["written"].step(load)
        fits["counted"].step(Load(8, 1, 0.25, took_s, whole))
    assert fits["written"].step_costs.prefill_token_s == pytest.approx(token_s, rel=0.1)
    assert fits["counted"].step_costs.prefill_token_s < token_s / 2
