"""Several ranks behind one client, as vLLM describes them; tests/engine has two real ones."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from headway.checks.start import refusals
from headway.engine.port import Ended
from headway.vllm_adapter.engine_adapter import VllmAdapter
from headway.vllm_adapter.engine_core_hooks import (
    CLEAR_WORKERS,
    GET_DISPATCH_BLOCKS,
    GET_LIMITS,
    GET_MEMORY,
    SET_LIMITS,
)
from headway_policies import Block, Load
from headway_policies.memory import Cache


class Ranks:
    """vLLM's client of several ranks: each keeps a limit, and answers utility calls."""

    def __init__(self, *held: list[str]) -> None:
        self.held = held
        self.limits = [0] * len(held)
        self.cleared: list[int] = [1] * len(held)

    async def call_utility_all_async(self, method: str, *arguments: Any) -> list[Any]:
        if method == SET_LIMITS:
            self.limits = [arguments[0]["max_num_active_reqs"]] * len(self.held)
        return {
            SET_LIMITS: [None] * len(self.held),
            GET_LIMITS: [{"max_num_active_reqs": limit} for limit in self.limits],
            GET_DISPATCH_BLOCKS: list(self.held),
            GET_MEMORY: [{"weights": 10, "kv_cache": 5 + rank} for rank in range(len(self.held))],
            CLEAR_WORKERS: self.cleared,
        }[method]


def engine(core: Ranks, **scheduler: Any) -> Any:
    """As much of an AsyncLLM as the adapter reads."""
    parallel = SimpleNamespace(data_parallel_size=len(core.held))
    scheduler_config = SimpleNamespace(**({"max_num_seqs": 16} | scheduler))
    config = SimpleNamespace(parallel_config=parallel, scheduler_config=scheduler_config)
    return SimpleNamespace(engine_core=core, vllm_config=config)


def test_the_ceiling_is_that_of_all_ranks() -> None:
    """``--max-num-seqs`` is that of each rank, vLLM's bound of queued requests that of the client."""
    two = Ranks([], [])
    assert VllmAdapter().engine_seats(engine(two)) == 32
    assert VllmAdapter().engine_seats(engine(two, max_num_queued_reqs=20)) == 20
    assert VllmAdapter().engine_seats(engine(two, max_num_active_seqs=4)) == 8
    assert VllmAdapter().engine_seats(engine(two, max_num_active_seqs=None)) == 32
    assert VllmAdapter().engine_seats(engine(Ranks([]))) == 16


@pytest.mark.parametrize(("seats", "each"), [(32, 16), (7, 4), (1, 1)])
async def test_each_rank_gets_its_part_of_the_limit(seats: int, each: int) -> None:
    """Rounded up: the gate keeps the sum."""
    two = Ranks([], [])
    assert await VllmAdapter().limit_engine(engine(two), seats) == 2 * each
    assert two.limits == [each, each]


async def test_a_hold_of_any_rank_is_a_hold_of_the_engine() -> None:
    """All have to answer the ping."""
    answer = await VllmAdapter().ping(engine(Ranks([], [Block.ENGINE_PAUSED.value])))
    assert answer.blocks == {Block.ENGINE_PAUSED}


async def test_the_memory_is_that_of_all_ranks_and_a_cache_is_cleared_in_all_of_them() -> None:
    """A sum by component; cleared only where every rank has done it."""
    two = Ranks([], [])
    assert await VllmAdapter().memory(engine(two)) == {"weights": 20, "kv_cache": 11}
    assert await VllmAdapter().clear_cache(engine(two), Cache.WORKER)
    two.cleared = [1, 0]
    assert not await VllmAdapter().clear_cache(engine(two), Cache.WORKER)


async def test_before_0_32_the_first_rank_answers_for_all() -> None:
    """vLLM asks all of them even then, and gives back one answer."""
    two = Ranks([Block.ENGINE_ASLEEP.value], [])

    async def first(method: str, *arguments: Any) -> Any:
        return (await two.call_utility_all_async(method, *arguments))[0]

    older = engine(two)
    older.engine_core = SimpleNamespace(call_utility_async=first)
    assert (await VllmAdapter().ping(older)).blocks == {Block.ENGINE_ASLEEP}
    await VllmAdapter().limit_engine(older, 6)
    assert two.limits == [3, 3]


class Steps:
    """A listener that keeps the loads."""

    def __init__(self) -> None:
        self.loads: list[Load | None] = []
        self.sequences: list[int] = []

    def step(self, load: Load | None, sequences: int, ended: Sequence[Ended]) -> None:
        self.loads.append(load)
        self.sequences.append(sequences)


def stats(running: int, waiting: int, usage: float) -> SimpleNamespace:
    """What vLLM's scheduler says after a step."""
    return SimpleNamespace(num_running_reqs=running, num_waiting_reqs=waiting, kv_cache_usage=usage)


def test_a_load_is_that_of_all_ranks_by_the_last_step_of_each(logger_class: Any) -> None:
    """Sequences add up, the KV use is that of the fullest, the batch is that of the step."""
    cache = SimpleNamespace(kv_cache_size_tokens=1000, num_gpu_blocks=200, block_size=16)
    logger, steps = logger_class(SimpleNamespace(cache_config=cache), [0, 1]), Steps()
    logger.listener = steps
    logger.record(stats(3, 1, 0.5), None, engine_idx=0)
    logger.record(stats(2, 0, 0.2), None, engine_idx=1)
    logger.record(stats(0, 0, 0.0), None, engine_idx=0)
    assert [(load.running, load.waiting, load.kv_usage_ratio) for load in steps.loads if load] == [
        (3, 1, 0.5), (5, 1, 0.5), (2, 0, 0.2),
    ]  # fmt: skip
    assert steps.sequences == [3, 2, 0]
    assert {load.kv_capacity_tokens for load in steps.loads if load} == {2000}


def test_other_ranks_start_with_nothing(logger_class: Any) -> None:
    """An idle rank reports nothing, so that what the one before it had would stay for ever."""
    logger, steps = logger_class(SimpleNamespace(), [0, 1]), Steps()
    logger.listener = steps
    logger.record(stats(7, 2, 0.9), None, engine_idx=1)
    logger.forget_loads()
    logger.record(stats(1, 0, 0.1), None, engine_idx=0)
    assert steps.loads[-1] == Load(1, 0, 0.1, first_tokens=0)


def test_blocks_are_counted_over_all_ranks_by_vllm(logger_class: Any) -> None:
    """Where it does not say the tokens of one rank, they come from the blocks, which are not multiplied again."""
    cache = SimpleNamespace(kv_cache_size_tokens=None, num_gpu_blocks=200, block_size=16)
    logger, steps = logger_class(SimpleNamespace(cache_config=cache), [0, 1]), Steps()
    logger.listener = steps
    logger.record(stats(1, 0, 0.1), None)
    assert steps.loads[-1] is not None
    assert steps.loads[-1].kv_capacity_tokens == 3200


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"data_parallel_external_lb": True}, "--data-parallel-external-lb gives the ranks to several servers"),
        ({"data_parallel_multi_port_external_lb": True}, "--data-parallel-multi-port-external-lb gives"),
        ({"data_parallel_hybrid_lb": True}, "--data-parallel-hybrid-lb gives"),
        ({"data_parallel_rank": 0}, "--data-parallel-rank gives"),
        ({"data_parallel_start_rank": 2}, "--data-parallel-start-rank gives"),
        ({"enable_elastic_ep": True}, "--enable-elastic-ep changes the number of ranks"),
        ({"data_parallel_backend": "ray"}, "--data-parallel-backend ray starts ranks"),
        ({"data_parallel_size_local": 1}, "on several machines"),
        ({"nnodes": 2}, "on several machines"),
        ({"api_server_count": 2}, "2 API servers for 2 ranks"),
    ],
)
def test_a_form_of_data_parallelism_that_is_not_supported_is_refused(given: dict[str, object], words: str) -> None:
    """In one line that says what to do."""
    server = {"host": "127.0.0.1", "data_parallel_size": 2}
    (line,) = refusals(Namespace(**(server | given)), {"HEADWAY_KEYS_FILE": "keys.toml"})
    assert words in line
    assert "; " in line


@pytest.mark.parametrize(
    "given",
    [
        {"data_parallel_size": 2},
        {"data_parallel_size": 2, "data_parallel_size_local": 2, "data_parallel_backend": "mp", "nnodes": 1},
        {"data_parallel_size": 2, "api_server_count": 1, "data_parallel_external_lb": False},
        {"data_parallel_size": 1, "data_parallel_backend": "ray", "api_server_count": 2},
    ],
)
def test_several_ranks_of_one_machine_behind_one_server_may_start(given: dict[str, object]) -> None:
    """And one rank, whatever else is said of ranks."""
    assert refusals(Namespace(host="127.0.0.1", **given), {"HEADWAY_KEYS_FILE": "keys.toml"}) == []


def test_several_api_servers_behind_one_queue_may_have_several_ranks() -> None:
    """As `headway serve` starts them: the seats are counted before them."""
    server = Namespace(host="127.0.0.1", data_parallel_size=2, api_server_count=2)
    assert refusals(server, {"HEADWAY_KEYS_FILE": "keys.toml", "HEADWAY_BEHIND_QUEUE": "1"}) == []
