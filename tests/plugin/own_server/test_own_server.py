"""The child process with vLLM's launcher, as a stand-in: its messages, its end, and another one in its place."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import stand_in_own_server
from engines import installed
from routed_engine import Answers, engine_of, statuses
from small_presets import small_preset
from until import until
from virtual_time import on_virtual_time

from headway.admission import ModelNames, loop_time_s
from headway.admission.request_context import REQUEST_CONTEXT, RequestContext
from headway.engine import PingAnswer
from headway.errors import NoEngineError
from headway.openai.asked import Asked
from headway.own_server.engine import ADDRESS, EngineFacts, OwnServerAdapter, OwnServerReplacer, wait_until_up
from headway.own_server.process import ArgumentsRefusedError, OwnServer
from headway.router.engine import InstancesEngine
from headway.router.forwarding.exchange import InstanceClient
from headway.router.heartbeat import Heartbeat
from headway.router.instances.instance import InstanceLink
from headway.router.instances.pool import InstancePool
from headway.vllm_adapter.process import death_cause
from headway_policies import Cause, Ending, Progress
from headway_policies.preset import Ability
from headway_policies.routing import LeastLoaded
from headway_policies.step import StepFigures

STAND_IN = (sys.executable, str(Path(stand_in_own_server.__file__)))
Start = Callable[..., OwnServer]
ClientOf = Callable[[OwnServer], InstanceClient]


@pytest.fixture
async def server_of() -> AsyncIterator[Start]:
    """Makes servers, and ends them."""
    made: list[OwnServer] = []

    def make(*words: str) -> OwnServer:
        made.append(OwnServer(words, STAND_IN))
        return made[-1]

    yield make
    for server in made:
        await server.end()


@pytest.fixture
async def client_of() -> AsyncIterator[ClientOf]:
    """Makes clients of a server, and closes them."""
    made: list[InstanceClient] = []

    def make(server: OwnServer) -> InstanceClient:
        made.append(InstanceClient(None, server.socket))
        return made[-1]

    yield make
    for client in made:
        await client.close()


async def engine_before(server: OwnServer, client: InstanceClient) -> InstancesEngine:
    """The engine of a server that is started, once that is up and healthy."""
    await server.start()
    facts = await wait_until_up(server, client)
    pool = InstancePool([InstanceLink(ADDRESS, facts.seats, exclusive=True)], LeastLoaded(), loop_time_s)
    engine = InstancesEngine(pool, client, server)
    server.on_dead = engine.engine_gone
    await Heartbeat(engine).once()
    return engine


def process_of_server() -> psutil.Process:
    """The one stand-in that runs; children of other tests may run beside it."""
    live = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    (found,) = [child for child in live if STAND_IN[1] in child.cmdline()]
    return found


def healthy(engine: InstancesEngine) -> list[str]:
    """The names of the instances that are."""
    return [link.address.name for link in engine.pool.healthy()]


async def test_it_says_what_its_arguments_and_its_engine_are(server_of: Start, client_of: ClientOf) -> None:
    """The seats are those of the engine; the words of the command line are passed on."""
    server = server_of("model", "--api-server-count", "2")
    assert server.gone
    said = await server.start()
    assert said == {"behind_queue": "1", "words": ["model", "--api-server-count", "2"]}
    facts = await wait_until_up(server, client_of(server))
    assert (facts.seats, facts.device, facts.settings.max_model_len) == (8, "cpu", 2048)


async def test_a_long_path_of_temporary_files_does_not_keep_it_from_listening(
    server_of: Start, client_of: ClientOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket's path has 107 bytes at most."""
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    server = server_of()
    assert healthy(await engine_before(server, client_of(server))) == ["vllm"]
    assert list(deep.iterdir()) == []


async def test_nobody_else_can_connect(server_of: Start, client_of: ClientOf) -> None:
    """The server listens in a folder of this user, and on no port; nothing is left of it in the end."""
    server = server_of()
    engine = await engine_before(server, client_of(server))
    folder = Path(server.socket).parent
    assert (healthy(engine), stat.S_IMODE(folder.stat().st_mode)) == (["vllm"], 0o700)
    assert process_of_server().net_connections("inet") == []
    await server.end()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("word", "text"), [("refuse", "--max-num-seqs: no seats"), ("vanish", "the server's process has ended")]
)
async def test_one_that_does_not_start_ends_with_one_line(server_of: Start, word: str, text: str) -> None:
    """Its own, where it has said one."""
    with pytest.raises(NoEngineError, match=text):
        await server_of(word).start()


async def test_arguments_that_vllm_refuses_are_no_engine_that_failed(server_of: Start) -> None:
    """By its exit code."""
    with pytest.raises(ArgumentsRefusedError):
        await server_of("misuse").start()


@pytest.mark.parametrize("how", ["a part of it ends", "it is killed from here", "its process ends"])
async def test_its_end_is_told_once_however_it_comes(
    server_of: Start, client_of: ClientOf, tmp_path: Path, how: str
) -> None:
    """By the end of one of its processes, of all of them, or by an order from here; all of them end."""
    server, dead = server_of("lose", str(tmp_path / "now")), list[bool]()
    await engine_before(server, client_of(server))
    server.on_dead = lambda: dead.append(True)
    process = process_of_server()
    parts = [process, *process.children()]
    assert len(parts) == 2
    if how == "a part of it ends":
        (tmp_path / "now").touch()
    if how == "it is killed from here":
        server.kill()
    if how == "its process ends":
        process.kill()
    await until(lambda: server.gone and bool(dead))
    process.wait(30)
    server.kill()
    (tmp_path / "now").touch()  # for the one that has lost its parent
    psutil.wait_procs(parts, 30)
    await server.start()
    assert (dead, server.gone, any(part.is_running() for part in parts)) == ([True], False, False)


async def test_it_ends_in_order_within_its_time(
    server_of: Start, client_of: ClientOf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """vLLM ends its API servers first, then the engine: the end of a part is no death then."""
    server, dead = server_of("orderly", str(tmp_path / "ended")), list[bool]()
    await engine_before(server, client_of(server))
    server.on_dead = lambda: dead.append(True)
    process = process_of_server()
    await until(lambda: len(process.children()) == 2)
    await asyncio.sleep(0.3)  # the watch has seen them
    await server.end(within_s=20)
    assert (tmp_path / "ended").exists()
    assert "has ended: all of them are ended" not in caplog.text


async def test_the_error_of_an_earlier_start_is_not_that_of_the_next_one(
    server_of: Start, client_of: ClientOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it the cause of a later death: "out of memory" would halve the seats."""
    words = tmp_path / "last-words"
    monkeypatch.setenv(death_cause.VARIABLE, str(words))
    server = server_of()
    engine = await engine_before(server, client_of(server))
    server.kill()
    words.write_text("out_of_memory\nMemoryError: of an earlier start")
    replacer = OwnServerReplacer(server, engine)
    await replacer.start()
    assert words.read_text() == ""
    server.kill()
    assert replacer.cause() is Cause.CRASH


async def test_another_one_takes_the_place_of_a_dead_one(server_of: Start, client_of: ClientOf) -> None:
    """As the same instance, which is healthy at once; nothing is left of the old process."""
    server = server_of()
    engine = await engine_before(server, client_of(server))
    before = process_of_server()
    server.kill()
    assert engine.errored
    await Heartbeat(engine).once()
    assert healthy(engine) == []
    await OwnServerReplacer(server, engine).start()
    assert (engine.errored, healthy(engine), before.is_running()) == (False, ["vllm"], False)


async def test_an_engine_that_reports_nothing_is_an_error(server_of: Start, client_of: ClientOf) -> None:
    """The engine was started in a way that nobody knows: its seats would be a guess."""
    server = server_of("mute")
    await server.start()
    with pytest.raises(NoEngineError, match="neither seats nor progress"):
        await wait_until_up(server, client_of(server))


async def test_an_engine_that_ends_while_it_starts_is_an_error(server_of: Start, client_of: ClientOf) -> None:
    """The supervisor tries again."""
    server = server_of("slow")
    await server.start()
    waiting = asyncio.ensure_future(wait_until_up(server, client_of(server)))
    await asyncio.sleep(0)
    server.kill()
    with pytest.raises(NoEngineError):
        await waiting


LIVE = (os.getpid(), os.getppid())


class Reports:
    """The progress reports of engine processes, two of which live; ``beat`` is the next one of a process."""

    def __init__(self) -> None:
        ended = max(psutil.pids()) + 100_000
        self.by_process = {pid: Progress(pid, 10, 4) for pid in (*LIVE, ended)}

    def read(self) -> Sequence[Progress]:
        return tuple(self.by_process.values())

    def beat(self, process: int, works: int) -> None:
        """It lives; an odd number of works is a step under way."""
        self.by_process[process] = Progress(process, self.by_process[process].beats + 1, works)


def adapter_of(reports: Any) -> OwnServerAdapter:
    """With these reports."""
    return OwnServerAdapter(EngineFacts(8), reports)


@pytest.mark.parametrize(
    ("beats", "answers"),
    [
        ([(0, 4), (1, 4)], True),
        ([(0, 4), (1, 6)], True),
        ([(0, 4), (1, 5)], True),  # the next step has begun
        ([(0, 4)], False),
        ([], False),
    ],
)
@on_virtual_time
async def test_a_ping_is_answered_once_every_rank_is_seen_alive(beats: list[tuple[int, int]], answers: bool) -> None:
    """One that is stopped keeps the answer back; what an engine before has reported does not."""
    reports = Reports()
    asked = asyncio.ensure_future(adapter_of(reports).ping(SimpleNamespace()))
    await asyncio.sleep(1)
    assert not asked.done()
    for rank, works in beats:
        reports.beat(LIVE[rank], works)
    await asyncio.sleep(1)
    assert asked.done() == answers
    asked.cancel()


@on_virtual_time
async def test_a_step_that_does_not_end_answers_no_ping() -> None:
    """Though its process lives: the report says that it is at work, and nothing else."""
    reports = Reports()
    for pid in LIVE:
        reports.beat(pid, 5)
    asked = asyncio.ensure_future(adapter_of(reports).ping(SimpleNamespace()))
    for _ in range(5):
        await asyncio.sleep(1)
        for pid in LIVE:
            reports.beat(pid, 5)
    assert not asked.done()
    for pid in LIVE:
        reports.beat(pid, 6)
    assert await asked == PingAnswer()


def test_a_preset_acts_as_in_one_process_but_for_the_caches_of_the_engine() -> None:
    """Its engine can be replaced, watched, measured and, by the page that it reads, shaped; nothing clears its caches
    from here.
    """
    page: Any = SimpleNamespace()
    assert OwnServerAdapter(EngineFacts(8), page=page).lacks(SimpleNamespace()) == {Ability.CACHES}
    assert adapter_of(None).lacks(SimpleNamespace()) == {Ability.CACHES, Ability.SHAPES}


def test_the_effect_of_the_step_policy_is_what_its_engine_has_written() -> None:
    """For the status and the metrics; nothing before the first plan, or without reports."""
    figures = StepFigures(steps=3, prompt_tokens=40)
    assert adapter_of(SimpleNamespace(steps=lambda: figures)).step_figures(SimpleNamespace()) == figures
    assert adapter_of(None).step_figures(SimpleNamespace()) is None


@on_virtual_time
async def test_requests_of_one_adapter_too_many_wait_before_the_server() -> None:
    """The server reports the places for adapters; requests for the model itself need none."""
    client = Answers()
    client.length_s = 1.0
    engine = engine_of(client, "vllm")
    facts = EngineFacts.read(stand_in_own_server.ENGINE | {"max_loras": 1})
    control, _ = installed(engine, small_preset(4), adapter=OwnServerAdapter(facts))
    control.gateway.names = ModelNames({"tiny"}, {"one", "two"})
    calls = []
    for model in ("one", "two", "tiny", "one"):
        token = REQUEST_CONTEXT.set(RequestContext(asked=Asked(model=model)))
        calls.append(asyncio.create_task(statuses(engine, f"{len(calls)}")))
        REQUEST_CONTEXT.reset(token)
    await asyncio.sleep(0.5)
    assert ([one["adapter"] for one in control.gateway.gate.dump()["waiting"]], len(client.asked)) == (["two"], 3)
    assert await asyncio.gather(*calls) == [[200]] * len(calls)


async def test_a_name_that_the_server_does_not_know_is_no_adapters() -> None:
    """It was answered, with 404."""
    engine = engine_of(Answers(vllm=(404, ())), "vllm")
    facts = EngineFacts.read(stand_in_own_server.ENGINE | {"max_loras": 1})
    control, _ = installed(engine, small_preset(4), adapter=OwnServerAdapter(facts))
    token = REQUEST_CONTEXT.set(context := RequestContext(asked=Asked(model="made up")))
    assert await statuses(engine) == [404]
    REQUEST_CONTEXT.reset(token)
    assert context.permit is not None
    context.permit.leave(Ending.INVALID)
    assert control.gateway.names is not None
    assert control.gateway.names.adapter("made up") is None


async def test_an_engine_that_has_not_reported_cannot_be_asked() -> None:
    """Before its first step; what runs in it is watched instead."""
    assert await adapter_of(SimpleNamespace(read=tuple)).ping(SimpleNamespace()) is None
    assert await adapter_of(None).ping(SimpleNamespace()) is None
