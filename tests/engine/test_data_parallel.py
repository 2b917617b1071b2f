"""vLLM's data parallelism on one host: two ranks of the real engine behind one API server, one queue and one limit."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import psutil
import pytest
import requests
from client_accounting import Client, ClientGroup, mixed
from engine_parts import busy, engine_processes, kill, long_form, ready, session
from running_server import RunningServer, Scrape, core_for_engine, wait_until

pytestmark = long_form(
    "six processes; tests/plugin/vllm_adapter has ranks without an engine: test_several_ranks, test_ranks"
)

SEATS = 4  # of the preset, for all ranks
RANKS = ("0", "1")
IN_ENGINE = ("vllm:num_requests_running", "vllm:num_requests_waiting")


@pytest.fixture(scope="module")
def ranks_server(real_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """`headway serve` with two ranks, three sequences each. No warm-up: vLLM's counters count clients alone."""
    core = core_for_engine()
    core = str(max(os.sched_getaffinity(0))) if core == "auto" else core
    environment = {
        "HEADWAY_ALLOW_DEV_MODE": "1",
        "VLLM_SERVER_DEV_MODE": "1",  # mounts /pause and /resume
        "VLLM_CPU_OMP_THREADS_BIND": f"{core}|{core}",  # two busy cores leave none to the clients, for seconds
    }
    flags = ("--preset", "chaos", "--no-warmup", "--data-parallel-size", "2", "--max-num-seqs", "3")
    server = RunningServer.headway(tmp_path_factory.mktemp("ranks") / "server.log", *flags, **environment)
    server.start_s *= 2  # six processes import vLLM
    with server:
        yield server


@pytest.fixture
def ranks(ranks_server: RunningServer) -> RunningServer:
    """That server, ready and at rest."""
    wait_until(lambda: ready(ranks_server), "the server is ready", 120)
    ranks_server.settle()
    return ranks_server


def rank_process(server: RunningServer, rank: str) -> psutil.Process:
    """EngineCore of one rank, as it is now."""
    (core,) = [one for one in engine_processes(server) if f"EngineCore_DP{rank}" in " ".join(one.cmdline())]
    return core


def _post(server: RunningServer, route: str) -> None:
    """Call one of vLLM's own routes with the operator's token."""
    headers = {"Authorization": f"Bearer {server.token}"}
    answer = requests.post(f"{server.url}{route}", headers=headers, timeout=20)
    assert answer.status_code == requests.codes.ok, answer.text


def sequences(scrape: Scrape, rank: str) -> float:
    """How many sequences one rank has, by vLLM's own count."""
    return sum(scrape(name, engine=rank) for name in IN_ENGINE)


async def test_both_ranks_work_and_share_the_seats(ranks: RunningServer) -> None:
    """The ceiling is that of both; the sequences of both together never exceed the seats; every client is served."""
    status = ranks.status()
    assert (status["limit"]["ceiling"], status["limit"]["live"], status["engine"]["core_limit"]) == (6, SEATS, SEATS)
    group = ClientGroup(ranks, mixed(24))
    load = asyncio.create_task(group.run())
    scrapes: list[Scrape] = []
    while not load.done():
        scrapes.append(await asyncio.to_thread(ranks.scrape))
    await load
    counts = group.audit()
    assert (counts["completed"], counts["doubled"]) == (24, 0)
    assert [one for one in scrapes if sum(sequences(one, rank) for rank in RANKS) > one("headway_seats_taken")] == []
    after = await asyncio.to_thread(ranks.scrape)
    for rank in RANKS:
        assert max(one("vllm:num_requests_running", engine=rank) for one in scrapes) <= SEATS / len(RANKS)
        assert after("vllm:generation_tokens_total", engine=rank) > 0


async def test_a_pause_holds_both_ranks(ranks: RunningServer) -> None:
    """No request runs until it is lifted, and all that waited are served."""
    await asyncio.to_thread(_post, ranks, "/pause?mode=keep")
    assert ranks.not_ready() == ["the engine is paused"]
    group = ClientGroup(ranks, mixed(6))
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: ranks.status()["queued"] == 6, "all wait")
    assert sum(sequences(ranks.scrape(), rank) for rank in RANKS) == 0
    await asyncio.to_thread(_post, ranks, "/resume")
    await load
    assert group.audit()["completed"] == 6


async def test_a_rank_that_is_stopped_is_noticed_while_the_other_one_works(ranks: RunningServer) -> None:
    """Nothing is dispatched until it goes on; then all requests are served."""
    group = ClientGroup(ranks, [Client(number, "normal", False, 1500) for number in range(SEATS)])
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: ranks.status()["in_flight"] == SEATS, "both ranks are at work")
    stopped = rank_process(ranks, "1")
    stopped.send_signal(signal.SIGSTOP)
    try:
        silent = ["the engine is unresponsive"]
        await asyncio.to_thread(wait_until, lambda: ranks.not_ready() == silent, "it is noticed", 30)
    finally:
        stopped.send_signal(signal.SIGCONT)
    await load
    await asyncio.to_thread(wait_until, lambda: ready(ranks), "it is ready again")
    assert group.audit()["completed"] == SEATS


@pytest.mark.parametrize("rank", RANKS[::-1])
async def test_the_death_of_one_rank_loses_no_request(ranks: RunningServer, rank: str) -> None:
    """Both are replaced at once: what had sent nothing is served by the new ones, what had is ended by one error."""
    group = ClientGroup(ranks, mixed(24, sizes=(100, 300)))
    deaths = ranks.status()["engine"]["deaths"]["crash"]
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: busy(ranks, group, SEATS), "four run, text flows, others wait")
    other = rank_process(ranks, RANKS[RANKS[0] == rank])
    kill(rank_process(ranks, rank))
    await asyncio.to_thread(wait_until, lambda: not other.is_running(), "the other rank has ended", 10)
    await asyncio.to_thread(wait_until, lambda: ready(ranks), "it is ready again", 120)
    await load
    counts = group.audit()
    assert ranks.status()["engine"]["deaths"]["crash"] == deaths + 1
    broken = [one for one in group.clients if one.verdict == "broken"]
    assert len(broken) <= SEATS
    assert all((one.stream, one.errors, one.done) == (True, 1, True) for one in broken)
    assert (counts["completed"] + len(broken), counts["doubled"]) == (len(group.clients), 0)
    assert ranks.status()["engine"]["core_limit"] == SEATS


def test_no_process_outlives_a_killed_server(ranks: RunningServer) -> None:
    """Neither the ranks nor the process with which vLLM balances them. The last test: it ends the server."""
    found = session(ranks)
    assert any("DPCoordinator" in " ".join(one.cmdline()) for one in found)
    assert ranks.process is not None
    ranks.process.kill()
    ranks.process.wait(10)
    wait_until(lambda: not session(ranks), "nothing is left of it")
