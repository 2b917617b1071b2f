"""The warm-up of a real engine before the socket listens, a server whose warm-up fails, and an end by SIGTERM."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import psutil
import pytest
import requests
from client_accounting import Client, ClientGroup
from engine_parts import engine_processes, killers, long_form, session
from generation_requests import body
from running_server import RunningServer, Scrape, wait_until
from waiting_clients import four_clients

STAGES = ["single", "logprobs", "json_schema", "batch", "alone"]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}


class ListeningServer(RunningServer):
    """One that is waited for until it listens, ready or not."""

    def _ready_or_dead(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            return True
        try:
            return requests.get(f"{self.url}/headway/healthz", timeout=2).status_code == 200
        except requests.RequestException:
            return False


def _prompt_tokens(scrape: Scrape) -> float:
    """The prompt tokens the engine has seen, by its own count."""
    return scrape("vllm:prompt_tokens_total")


@pytest.mark.starts_server
def test_every_stage_ran_before_the_server_was_ready(shared_server: RunningServer) -> None:
    """The status and the metric show each stage and the pace of one request alone; none of it is counted as traffic."""
    status, scrape = shared_server.status(), shared_server.scrape()
    warmup, alone = status["warmup"], status["engine"]["unloaded"]
    assert (warmup["state"], warmup["refused"], warmup["attempt"]) == ("done", [], 1), shared_server.log()[-2000:]
    assert list(warmup["stages"]) == STAGES
    assert 2 <= len(warmup["stages"]["batch"]) <= 6
    assert 1 < warmup["batch_size"] <= status["limit"]["ceiling"]
    shown = [one.labels["stage"] for one in scrape.samples if one.name == "headway_warmup_duration_seconds"]
    assert shown == STAGES
    assert alone["source"] == "steps", alone
    assert alone["token_s"] > 0, alone
    counted = ("headway_arrivals_total", "headway_outcomes_total", "headway_batch_size_count")
    assert [scrape(name) for name in (*counted, "headway_time_to_first_token_seconds_count")] == [0, 0, 0, 0]


def _answered_after_s(server: RunningServer, **more: object) -> float:
    """How long one short answer takes."""
    began_s = time.perf_counter()
    answer = requests.post(f"{server.url}/v1/completions", json=body("/v1/completions", 2) | more, timeout=120)
    assert answer.status_code == 200, answer.text
    return time.perf_counter() - began_s


@pytest.mark.starts_server
def test_the_first_answer_is_as_quick_as_later_ones(shared_server: RunningServer) -> None:
    """The first with a schema against the slowest of the next nine; without a warm-up it takes seven times that. The
    first plain one and the first with logprobs are answered as well."""
    first_s, *others_s = [_answered_after_s(shared_server, response_format=FORMAT) for _ in range(10)]
    for more in ({}, {"logprobs": 1}):
        _answered_after_s(shared_server, **more)
    assert first_s <= 3 * max(others_s)


@long_form("two servers that compile")
def test_the_first_client_waits_no_longer_than_the_others(real_engine: None, tmp_path: Path) -> None:
    """The first answer with logprobs against the slowest of the next nine; without a warm-up it is many times that."""
    ratios = []
    for flags in ((), ("--no-warmup",)):
        server = RunningServer.headway(
            tmp_path / "server.log", "--preset", "warm4", *flags, "--max-num-seqs", "4", TORCHDYNAMO_DISABLE="0"
        )
        with server:
            first_s, *others_s = [_answered_after_s(server, logprobs=1) for _ in range(10)]
            ratios.append(first_s / max(others_s))
    warm, cold = ratios
    assert warm <= 1.5
    assert cold > 5


def test_an_idle_engine_is_kept_warm_without_being_counted(server: RunningServer) -> None:
    """The engine sees short prompts by itself; tickets and batch sizes stay as they are."""
    server.use("warm4")
    names = ("headway_arrivals_total", "headway_batch_size_count")
    before = server.scrape()
    wait_until(lambda: _prompt_tokens(server.scrape()) >= _prompt_tokens(before) + 16, "two requests to keep it warm")
    after = server.scrape()
    assert [after(name) for name in names] == [before(name) for name in names]
    assert after.unbalanced() == []


@long_form("tests/chaos ends a hung engine, tests/plugin/warmup warms the next one up")
def test_an_engine_in_the_place_of_a_hung_one_is_warmed_up_before_it_serves(real_engine: None, tmp_path: Path) -> None:
    """Where the preset says so, an engine that is stopped for too long is ended; the requests it kept waiting are
    served by the next one, which has run every stage before that."""
    flags = ("--preset", "warm4-impatient", "--max-num-seqs", "4")
    with RunningServer.headway(tmp_path / "server.log", *flags) as server:
        asyncio.run(_hang_under_load(server))


async def _hang_under_load(warmed: RunningServer) -> None:
    stopped = engine_processes(warmed)
    group = ClientGroup(warmed, [Client(number, "normal", False, 40) for number in range(6)])
    for one in stopped:
        one.suspend()
    await group.run()
    status = warmed.status()
    assert group.verdicts() == {"completed": 6}
    assert status["engine"]["deaths"]["hang"] == 1
    assert (status["warmup"]["state"], list(status["warmup"]["stages"])) == ("done", STAGES)
    assert not {one.pid for one in stopped} & {one.pid for one in engine_processes(warmed)}
    warmed.settle()
    assert warmed.scrape().unbalanced() == []


@long_form("a server of its own; tests/plugin/warmup finds it with a fake engine")
def test_a_warm_up_that_fails_leaves_the_server_listening_and_not_ready(real_engine: None, tmp_path: Path) -> None:
    """The server gives the reason, tries again by itself, leaves nothing in the engine, and shuts down normally."""
    log_path = tmp_path / "server.log"
    headway = RunningServer.headway(log_path, "--preset", "cold4", "--max-num-seqs", "4")
    server = ListeningServer(headway.command, log_path, headway.environment).start()
    try:
        answer = requests.get(f"{server.url}/headway/readyz", timeout=10)
        assert answer.status_code == 503
        (reason,) = answer.json()["reasons"]
        assert reason.startswith("warm-up ")
        assert reason.endswith("single: no end within 0.001 s")
        assert server.scrape()("headway_ready") == 0
        wait_until(lambda: server.status()["warmup"]["attempt"] >= 2, "a second attempt")
        server.settle()
        code = server.stop()
    finally:
        if server.process is not None and server.process.poll() is None:
            server.stop()
    assert code == 0, server.log()[-2000:]
    assert server.left() == []


@pytest.mark.ends_server
def test_sigterm_ends_everything(shared_server: RunningServer) -> None:
    """After SIGTERM under load the running requests are finished and the waiting ones refused; exit code 0, no process
    remains, including the one that watches for the end of the server, though it ignores SIGTERM."""
    server = shared_server
    assert server.process is not None
    if server.process.poll() is not None:  # this is its second try
        server.start()
    server.use("tight")
    server.settle()
    clients = four_clients(server)
    waiting = killers(server)
    for one in waiting:
        one.terminate()
    code = server.stop(within_s=300)
    answers = [client.communicate(timeout=120)[0].decode() for client in clients]
    assert code == 0, server.log()[-2000:]
    assert server.left() == []
    assert waiting
    assert psutil.wait_procs(waiting, timeout=60)[1] == []
    assert session(server) == []
    assert sorted(answers) == ["200", "200", "503", "503"]
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{server.url}/headway/healthz", timeout=2)
