"""A spare EngineCore of a client: taken by the next start, spared by a kill, and ended at any moment."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from sleeping_cores import Child, async_llm, core_client, end, sleeping_core
from until import until

from headway.errors import NoEngineError
from headway.supervision import SpareStarter
from headway.vllm_adapter.process import core_start, engine_replacer
from headway.vllm_adapter.process.engine_replacer import VllmReplacer


class Cores:
    """Engine cores that are processes which only sleep; one that starts is up once ``go_on`` is set."""

    def __init__(self) -> None:
        self.started: list[Child] = []
        self.go_on = threading.Event()
        self.late = False  # a core's process comes only with go_on

    def process(self) -> Child:
        self.started.append(sleeping_core())
        return self.started[-1]

    def client_of(self, process: Child) -> Any:
        """As much of an engine core's client as is looked at."""
        core = core_client(process)
        core.shutdown = lambda timeout: process.kill()  # type: ignore[attr-defined]  # of every context's process
        return core

    def another(self, client: Any) -> Any:
        """In place of vLLM's: fails when its process ends before it is up."""
        if self.late:
            assert self.go_on.wait(60)
        process = self.process()
        while self.late or not self.go_on.wait(0.02):
            process.join(0.02)
            if not process.is_alive():
                raise RuntimeError("Engine core initialization failed")
        return self.client_of(process)


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cores]:
    """In the place of vLLM's."""
    made = Cores()
    monkeypatch.setattr(engine_replacer, "_end_questions", lambda core: None)  # it imports vLLM
    monkeypatch.setattr(engine_replacer, "another_core", made.another)
    monkeypatch.setattr(core_start, "another_core", made.another)
    yield made
    made.go_on.set()
    end(made.started)


@pytest.mark.parametrize("owns_process", [False, True], ids=["a program", "a server"])
async def test_a_spare_is_spared_by_the_kill_and_taken_by_the_start(cores: Cores, owns_process: bool) -> None:
    """The old core serves until it is killed; the client has the spare's afterwards, and no third one was started."""
    old = cores.process()
    client = async_llm(cores.client_of(old))
    replacer = VllmReplacer(client, owns_process=owns_process)
    assert isinstance(replacer, SpareStarter)
    start = asyncio.create_task(replacer.start_spare())
    await until(lambda: len(cores.started) == 2)
    assert (old.is_alive(), replacer.spare_up()) == (True, False)
    cores.go_on.set()
    await start
    assert (old.is_alive(), replacer.spare_up()) == (True, True)
    replacer.kill()
    await until(lambda: not old.is_alive())
    await replacer.start()
    spare = cores.started[1]
    assert (client.engine_core.resources.engine_manager.processes, spare.is_alive()) == ([spare], True)
    replacer.end_spare()  # it is in use: nothing happens
    await asyncio.sleep(0.2)
    assert (spare.is_alive(), len(cores.started), replacer.spare_up()) == (True, 2, False)


@pytest.mark.parametrize("owns_process", [False, True], ids=["a program", "a server"])
async def test_a_start_waits_for_a_spare_that_is_still_starting(cores: Cores, owns_process: bool) -> None:
    """The old core died meanwhile: its kill leaves the spare alone, also where the recycle no longer waits for it."""
    old = cores.process()
    client = async_llm(cores.client_of(old))
    replacer = VllmReplacer(client, owns_process=owns_process)
    recycle = asyncio.create_task(replacer.start_spare())
    await until(lambda: len(cores.started) == 2)
    recycle.cancel()
    replacer.kill()
    await until(lambda: not old.is_alive())
    start = asyncio.create_task(replacer.start())
    await asyncio.sleep(0.2)
    assert not start.done()
    cores.go_on.set()
    await start
    assert client.engine_core.resources.engine_manager.processes == [cores.started[1]]
    assert len(cores.started) == 2


async def test_a_spare_that_dies_is_not_taken(cores: Cores) -> None:
    """Another core is started in its place."""
    client = async_llm(cores.client_of(cores.process()))
    replacer = VllmReplacer(client, owns_process=False)
    cores.go_on.set()
    await replacer.start_spare()
    spare = cores.started[1]
    spare.kill()  # type: ignore[attr-defined]  # of every context's process
    await until(lambda: not replacer.spare_up())
    replacer.kill()
    await replacer.start()
    assert client.engine_core.resources.engine_manager.processes == [cores.started[2]]
    assert cores.started[2].is_alive()


@pytest.mark.parametrize("when", ["starting", "up", "before its process"])
async def test_an_ended_spare_leaves_no_process(cores: Cores, when: str) -> None:
    """At any moment, also where vLLM starts the process only afterwards; the old core is untouched."""
    old = cores.process()
    replacer = VllmReplacer(async_llm(cores.client_of(old)))
    cores.late = when == "before its process"
    start = asyncio.create_task(replacer.start_spare())
    if when == "up":
        cores.go_on.set()
        await start
    elif when == "starting":
        await until(lambda: len(cores.started) == 2)
    else:
        await asyncio.sleep(0.1)
    replacer.end_spare()
    cores.go_on.set() if when == "before its process" else None
    if when != "up":
        with pytest.raises(NoEngineError):
            await start
    await until(lambda: len(cores.started) == 2 and not cores.started[1].is_alive())
    assert (old.is_alive(), replacer.spare_up()) == (True, False)
    ours = {core.pid for core in cores.started}
    assert {child.pid for child in psutil.Process().children()} & ours == {old.pid}


async def test_a_spare_that_does_not_start_is_one_error(cores: Cores) -> None:
    """And the next one may."""
    replacer = VllmReplacer(async_llm(cores.client_of(cores.process())))
    start = asyncio.create_task(replacer.start_spare())
    await until(lambda: len(cores.started) == 2)
    cores.started[1].kill()  # type: ignore[attr-defined]  # of every context's process
    with pytest.raises(NoEngineError, match="Engine core initialization failed"):
        await start
    assert not replacer.spare_up()
    cores.go_on.set()
    await replacer.start_spare()
    assert replacer.spare_up()
    replacer.end_spare()
