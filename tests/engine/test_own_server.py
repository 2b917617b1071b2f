"""`headway serve --api-server-count 2` on the real engine: vLLM's own launcher with two API servers, one queue, one
limit, one set of figures; one of its processes is killed under load, and then another."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests
from client_accounting import ROUTE, Client, ClientGroup, mixed
from engine_parts import busy, engine_core, engine_processes, kill, long_form, ready, session
from generation_requests import body
from running_server import PRESETS, RunningServer, Scrape, core_for_engine, wait_until

from headway.vllm_adapter.process.limits_page import LimitsPage
from headway.vllm_adapter.process.progress import VARIABLE

pytestmark = long_form(
    "five processes; tests/plugin/own_server has a stand-in for them, tests/plugin/router the queue and the limit"
)

SEATS = 4  # of the preset, over both API servers
API_SERVERS = 2
IN_ENGINE = ("vllm:num_requests_running", "vllm:num_requests_waiting")


def patient_presets(folder: Path) -> dict[str, str]:
    """The environment with a preset like `chaos`, under which a request waits while several processes import vLLM."""
    text = (PRESETS / "chaos.toml").read_text().replace('"chaos"', '"patient"')
    folder.mkdir()
    (folder / "patient.toml").write_text(text.replace("_timeout_s = 1", "_timeout_s = 9"))
    return {"HEADWAY_PRESET_DIR": str(folder)}


@pytest.fixture(scope="module")
def pair_server(real_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Two API servers of an engine that could run twice the seats of the preset."""
    core, folder = core_for_engine(), tmp_path_factory.mktemp("pair")
    binding = {"VLLM_CPU_OMP_THREADS_BIND": str(max(os.sched_getaffinity(0))) if core == "auto" else core}
    flags = ("--preset", "patient", "--api-server-count", "2", "--max-num-seqs", "8")
    environment = {**binding, **patient_presets(folder / "presets")}
    server = RunningServer.headway(folder / "server.log", *flags, **environment)
    server.start_s *= 2  # five processes import vLLM
    with server:
        yield server


@pytest.fixture
def pair(pair_server: RunningServer) -> RunningServer:
    """That server, ready and at rest."""
    wait_until(lambda: ready(pair_server), "it is ready", 120)
    pair_server.use("patient")
    pair_server.settle()
    return pair_server


def healthy(server: RunningServer) -> float:
    """How many API servers receive requests."""
    return server.scrape()("headway_instance_up")


def api_servers(server: RunningServer) -> list[psutil.Process]:
    """Their processes."""
    return [one for one in engine_processes(server) if "APIServer_" in " ".join(one.cmdline())]


def answered(scrape: Scrape) -> float:
    """How many exchanges with vLLM ended with an answer."""
    return scrape("headway_instance_exchanges_total", instance_name="vllm", ended="answered")


async def settled(group: ClientGroup) -> Counter[str]:
    """The clients by verdict, once each request has one outcome in a ledger that is balanced."""
    await asyncio.to_thread(group.server.settle)
    now = await asyncio.to_thread(group.server.scrape)
    assert now.unbalanced() == []
    for name in ("headway_arrivals_total", "headway_outcomes_total"):
        assert now(name) - group.before(name) == len(group.clients)
    verdicts = group.verdicts()
    completed = now("headway_outcomes_total", outcome="completed")
    assert completed - group.before("headway_outcomes_total", outcome="completed") == verdicts["completed"]
    return verdicts


def assert_broken_only_after_output(group: ClientGroup) -> None:
    """What had sent nothing is completed; what had ends with one error."""
    broken = [one for one in group.clients if one.verdict != "completed"]
    assert len(broken) <= SEATS
    assert [(one.status, one.stream, one.errors) for one in broken] == [(200, True, 1)] * len(broken)


def test_a_grammar_that_takes_too_much_is_refused(pair: RunningServer) -> None:
    """By the API server that has the request, before the engine; others that it does not know go on."""
    nested = {"type": "string", "pattern": "^(([a-z]{1,30}){1,30}){1,30}$"}
    for grammar, status in ((nested, 400), ({"type": "string", "maxLength": 20}, 200), (nested, 400)):
        whole = body(ROUTE, 4) | {"structured_outputs": {"json": grammar}}
        answer = requests.post(f"{pair.url}{ROUTE}", json=whole, timeout=120)
        assert answer.status_code == status, answer.text
    form = {"text": {"format": {"type": "json_schema", "name": "a", "schema": nested}}}
    for route, more in (("/v1/responses", form), (ROUTE, {"logit_bias": {"99999999": 1}})):
        answer = requests.post(f"{pair.url}{route}", json=body(route, 4, stream=True) | more, timeout=120)
        assert (answer.status_code, "data:" in answer.text) == (400, False), answer.text
    assert healthy(pair) == 1
    lines = requests.post(f"{pair.url}{ROUTE}", json=body(ROUTE, 4, stream=True), timeout=120).text
    assert lines.count("data: {") >= 4


async def test_both_work_and_the_limit_holds_over_both(pair: RunningServer) -> None:
    """Requests are spread over both by vLLM, never more run than the preset has seats, and others wait at the desk."""
    status = pair.status()
    assert (status["limit"]["ceiling"], status["limit"]["live"]) == (8, SEATS)
    group = ClientGroup(pair, mixed(24))
    load = asyncio.create_task(group.run())
    scrapes: list[Scrape] = []
    while not load.done():
        scrapes.append(await asyncio.to_thread(pair.scrape))
    await load
    counts = await asyncio.to_thread(group.audit)
    assert (counts["completed"], counts["doubled"]) == (24, 0)
    assert answered(pair.scrape()) - answered(group.before) == 24
    served = [sum(one.cpu_times()[:2]) for one in api_servers(pair)]
    assert len(served) == API_SERVERS
    assert min(served) > 0
    assert max(sum(one(name) for name in IN_ENGINE) for one in scrapes) <= SEATS
    assert any(one("headway_queue_depth") > SEATS for one in scrapes)


async def test_the_engine_keeps_what_the_queue_has_written(pair: RunningServer) -> None:
    """Before its next step, and whatever was sent to it: with a limit below that of the queue others wait in it."""
    page = LimitsPage(Path(engine_core(pair).environ()[VARIABLE]))
    written = page.read()
    assert written is not None
    assert written["max_num_active_reqs"] == SEATS
    page.write(max_num_active_reqs=1)
    group = ClientGroup(pair, [Client(number, "normal", True, 400) for number in range(SEATS)])
    load = asyncio.create_task(group.run())
    scrapes: list[Scrape] = []
    while not load.done():
        scrapes.append(await asyncio.to_thread(pair.scrape))
    await load
    page.write(max_num_active_reqs=SEATS)
    running, waiting = ([one(name) for one in scrapes] for name in IN_ENGINE)
    assert (max(running), max(waiting)) == (1, SEATS - 1)
    assert await settled(group) == {"completed": SEATS}


def test_one_scrape_has_each_family_once_and_adds_up(pair: RunningServer) -> None:
    """The engine's figures are those of both API servers together, Headway's are of the one desk."""
    before = pair.scrape()
    for _ in range(4):
        answer = requests.post(
            f"{pair.url}{ROUTE}", json={"model": "tiny", "prompt": "a", "max_tokens": 5, "ignore_eos": True}, timeout=60
        )
        assert answer.status_code == requests.codes.ok, answer.text
    text = requests.get(f"{pair.url}/metrics", timeout=20).text
    families = [line.split(" ")[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert [name for name, count in Counter(families).items() if count > 1] == []
    assert {"headway_limit", "vllm:num_requests_running", "process_start_time_seconds"} <= set(families)
    after = Scrape(text)
    assert after("vllm:generation_tokens_total") - before("vllm:generation_tokens_total") == 20
    assert after("headway_output_tokens_total") - before("headway_output_tokens_total") == 20


async def test_a_preset_switch_is_one_revision_for_both(pair: RunningServer) -> None:
    """One order, one revision; from then on the limit of both is that of the new preset."""
    before = pair.status()
    answer = pair.use("latency")
    after = pair.status()
    assert answer["revision"] == after["preset"]["revision"] == before["preset"]["revision"] + 1
    assert after["limit"]["live"] == 8
    group = ClientGroup(pair, [Client(number, "normal", True, 1200) for number in range(8)])
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: pair.scrape()("headway_in_flight") > SEATS, "more run")
    await load
    assert await settled(group) == {"completed": 8}


async def test_an_engine_that_is_stopped_receives_nothing_until_it_goes_on(pair: RunningServer) -> None:
    """Its API servers answer all the while; then all requests are served."""
    group = ClientGroup(pair, [Client(number, "normal", False, 1500) for number in range(SEATS)])
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: pair.status()["in_flight"] == SEATS, "it is at work")
    core = engine_core(pair)
    core.send_signal(signal.SIGSTOP)
    try:
        silent = ["the engine is unresponsive"]
        await asyncio.to_thread(wait_until, lambda: pair.not_ready() == silent, "it is noticed", 30)
    finally:
        core.send_signal(signal.SIGCONT)
    await load
    assert await settled(group) == {"completed": SEATS}


@pytest.mark.parametrize("which", ["the engine", "an API server"])
async def test_the_death_of_a_process_loses_nothing_that_waits(pair: RunningServer, which: str) -> None:
    """All of them are started anew behind the same port; what had sent nothing is answered."""
    group = ClientGroup(pair, mixed(24, sizes=(100, 300)))
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: busy(pair, group, SEATS), "four run, text flows, others wait")
    deaths = pair.status()["engine"]["deaths"]["crash"]
    old = engine_processes(pair)
    kill(engine_core(pair) if which == "the engine" else api_servers(pair)[0])
    await asyncio.to_thread(wait_until, lambda: not ready(pair), "it is not ready")
    await asyncio.to_thread(wait_until, lambda: ready(pair), "it is ready again", 240)
    await load
    await settled(group)
    assert_broken_only_after_output(group)
    assert [one for one in old if one.is_running()] == []
    assert pair.status()["engine"]["deaths"]["crash"] == deaths + 1
    assert (healthy(pair), len(api_servers(pair))) == (1, API_SERVERS)


def test_no_api_server_has_a_port(pair: RunningServer) -> None:
    """No client comes past the queue."""
    for one in api_servers(pair):
        assert [each for each in one.net_connections("inet") if each.status == "LISTEN"] == []


def test_no_process_outlives_a_killed_server(pair: RunningServer) -> None:
    """Neither the engine nor an API server. The last test: it ends the server."""
    assert pair.process is not None
    parent = psutil.Process(pair.process.pid)
    found = parent.children(recursive=True)
    assert sum("VLLM::" in " ".join(one.cmdline()) for one in found) >= 4
    parent.kill()
    pair.process.wait(10)
    wait_until(lambda: not any(one.is_running() for one in found), "nothing is left of it")
    assert session(pair) == []


async def test_two_ranks_behind_two_api_servers(real_engine: None, tmp_path: Path) -> None:
    """All four work; the death of one rank is that of the engine, and loses nothing that waits."""
    core = max(os.sched_getaffinity(0))
    flags = ("--preset", "patient", "--api-server-count", "2", "--data-parallel-size", "2", "--max-num-seqs", "3")
    environment = {"VLLM_CPU_OMP_THREADS_BIND": f"{core}|{core}", **patient_presets(tmp_path / "presets")}
    server = RunningServer.headway(tmp_path / "server.log", *flags, **environment)
    server.start_s *= 3
    with server:
        assert server.status()["limit"]["ceiling"] == 6
        group = ClientGroup(server, mixed(24))
        await group.run()
        counts = await asyncio.to_thread(group.audit)
        assert (counts["completed"], counts["doubled"]) == (24, 0)
        scrape = await asyncio.to_thread(server.scrape)
        assert answered(scrape) >= 24
        assert min(scrape("vllm:generation_tokens_total", engine=rank) for rank in "01") > 0
        again = ClientGroup(server, mixed(24, sizes=(100, 300)))
        load = asyncio.create_task(again.run())
        await asyncio.to_thread(wait_until, lambda: busy(server, again, SEATS), "four run, text flows, others wait")
        (rank,) = [one for one in engine_processes(server) if "EngineCore_DP1" in " ".join(one.cmdline())]
        kill(rank)
        await load
        await settled(again)
        assert_broken_only_after_output(again)
