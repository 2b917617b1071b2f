"""The guard of grammars with a real process that compiles, and a compiler that does what its pattern says."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import psutil
import pytest
import toy_compile_server
from until import until
from virtual_time import on_virtual_time

from headway.errors import Refused
from headway.vllm_adapter.grammars.compile_server import CompileServer
from headway.vllm_adapter.grammars.frames import Frames, Limits, Order, Report, Verdict, packed
from headway.vllm_adapter.grammars.guard import GrammarGuard, GrammarTooLargeError
from headway_policies import Reason

#: On a machine that is busy, a second of processor time takes long.
LIMITS = Limits(processor_s=1, wall_s=120.0, memory_bytes=1 << 28)


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process can import the toy, and Headway where this process has it from."""
    monkeypatch.setenv("PYTHONPATH", str(Path(toy_compile_server.__file__).parent), prepend=os.pathsep)


def params(pattern: str) -> Any:
    """Sampling parameters with this pattern."""
    return SimpleNamespace(structured_outputs=SimpleNamespace(regex=pattern))


@asynccontextmanager
async def guarding(limits: Limits = LIMITS, **more: Any) -> AsyncIterator[GrammarGuard]:
    """A guard whose process ends with the test."""
    guard = GrammarGuard(None, limits, module="toy_compile_server", **more)
    try:
        yield guard
    finally:
        await guard.stop()


def compilers(guard: GrammarGuard) -> list[psutil.Process]:
    """The children that compile now."""
    assert guard._process is not None
    return psutil.Process(guard._process.pid).children()


@pytest.mark.parametrize("what", ["spin", "eat"])
async def test_what_takes_too_much_is_refused_and_stays_refused(what: str) -> None:
    """Processor time, or memory; the second request learns it from the first."""
    async with guarding() as guard:
        for _ in range(2):
            with pytest.raises(GrammarTooLargeError, match="1 s of processor time or 256 MiB"):
                await guard.check(params(what), "a")
        assert (guard.verdicts["too_large"], guard.verdicts["known"], guard.compiling) == (1, 1, 0)
        assert compilers(guard) == []


async def test_a_grammar_that_gets_no_processor_in_time_may_come_again() -> None:
    """Other work has taken the processors, which says nothing of the grammar."""
    async with guarding(Limits(processor_s=1, wall_s=1.0)) as guard:
        with pytest.raises(Refused) as refused:
            await guard.check(params("sleep"), "a")
        assert (refused.value.reason, refused.value.retry_after_s) == (Reason.QUEUE_TIMEOUT, 5)
        assert (guard.verdicts["overdue"], guard.verdicts["too_large"], guard._known) == (1, 0, {})


def test_more_processor_time_is_more_time_in_all() -> None:
    """A grammar that the operator allows a minute of processor time is not ended before it had that."""
    assert Limits.of_processor(Limits().processor_s) == Limits()
    assert Limits.of_processor(60).wall_s >= 2 * 60


async def test_what_fits_passes_and_so_does_what_the_engine_will_refuse() -> None:
    """An invalid grammar is the engine's to name. A second time neither is compiled again."""
    async with guarding() as guard:
        for _ in range(2):
            for what in ("good", "bad"):
                await guard.check(params(what), "a")
        assert (guard.verdicts["fits"], guard.verdicts["invalid"], guard.verdicts["known"]) == (1, 1, 2)


async def test_plain_grammars_start_no_process() -> None:
    """Nor does a request without any."""
    async with guarding() as guard:
        await guard.check(SimpleNamespace(structured_outputs=None), "a")
        await guard.check(SimpleNamespace(structured_outputs=SimpleNamespace(json={"type": "object"})), "a")
        assert guard._process is None
        assert (guard.verdicts["plain"], sum(guard.verdicts.values())) == (1, 1)


async def test_hostile_grammars_of_one_tenant_keep_no_other_waiting() -> None:
    """Two of them, one after another; the other tenant's is compiled beside the first."""
    async with guarding(at_once=2) as guard:
        await guard.check(params("good"), "b")
        hostile = [asyncio.create_task(guard.check(params(f"spin {n}"), "a")) for n in range(2)]
        await asyncio.sleep(0.2)
        assert len(compilers(guard)) == 1
        await guard.check(params("good too"), "b")
        assert not any(task.done() for task in hostile)
        assert guard.compiling == 2
        found = await asyncio.gather(*hostile, return_exceptions=True)
        assert [type(error) for error in found] == [GrammarTooLargeError] * 2
        assert guard._lines == {}


async def test_requests_with_the_same_grammar_wait_for_one_compilation() -> None:
    """The compilation goes on when one of them leaves, and ends when the last has left."""
    async with guarding() as guard:
        first, second = (asyncio.create_task(guard.check(params("wait"), "a")) for _ in range(2))
        await asyncio.sleep(0.1)
        first.cancel()
        await second
        assert guard.verdicts["fits"] == 1
        leaving = asyncio.create_task(guard.check(params("sleep on"), "a"))
        await until(lambda: compilers(guard))
        leaving.cancel()
        await until(lambda: not compilers(guard))
        assert guard.compiling == 0
        await guard.check(params("after it"), "a")


@on_virtual_time
async def test_a_grammar_that_another_tenant_has_in_line_does_not_wait_there() -> None:
    """It is compiled in this tenant's own turn, and that verdict ends the other one's wait."""

    class Counting(GrammarGuard):
        compiled: ClassVar[list[str]] = []

        async def start(self) -> None:
            """Start nothing."""

        async def _compile(self, fields: dict[str, Any]) -> Verdict | None:
            self.compiled.append(fields["regex"])
            await asyncio.sleep(1.0)
            return Verdict.FITS

    guard = Counting(None, Limits(processor_s=1, wall_s=60.0), at_once=4)
    ahead = [asyncio.create_task(guard.check(params(one), "a")) for one in ("1", "2", "3", "common")]
    await asyncio.sleep(0.5)
    begin_s = asyncio.get_running_loop().time()
    await guard.check(params("common"), "b")
    assert asyncio.get_running_loop().time() - begin_s == pytest.approx(1.0)
    await asyncio.gather(*ahead)
    assert sorted(guard.compiled) == ["1", "2", "3", "common"]


def test_a_client_that_leaves_as_its_compilation_ends_ends_no_other(tmp_path: Path) -> None:
    """The order to end it, and its verdict, are there at the same time."""
    orders, ordering = os.pipe()
    reports, reporting = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ordering)
        with suppress(BaseException):
            CompileServer(lambda fields: time.sleep(fields["s"]), LIMITS, orders, reporting).run()
            os._exit(0)
        os._exit(1)
    os.close(reporting)
    os.write(ordering, packed(Order(1, {"s": 0.3})) + packed(Order(2, {"s": 1.0})))
    compiling = psutil.Process(pid)
    while len(compiling.children()) < 2:
        time.sleep(0.01)
    os.kill(pid, signal.SIGSTOP)
    os.write(ordering, packed(Order(1, None)))
    time.sleep(0.6)
    os.kill(pid, signal.SIGCONT)
    found = Frames()
    said: list[Any] = []
    while not any(report.number == 2 for report in said):
        data = os.read(reports, 1000)
        assert data, "the server has ended"
        said += found.feed(data)
    os.close(ordering)
    assert os.waitpid(pid, 0)[1] == 0
    assert Report(2, Verdict.FITS) in said


async def test_a_grammar_that_is_there_before_the_process_reads_is_compiled() -> None:
    """The request that has started the process left meanwhile."""
    async with guarding() as guard:
        first = asyncio.create_task(guard.check(params("left"), "a"))
        await until(lambda: guard._process is not None)
        first.cancel()
        await asyncio.wait([first])
        async with asyncio.timeout(30):
            await guard.check(params("good"), "b")


async def test_a_process_that_ends_is_started_again() -> None:
    """Its grammar is compiled again, once; a grammar that ends the process each time is refused, once the
    last process has been waited for.
    """
    async with guarding() as guard:
        await guard.check(params("good"), "a")
        waiting = asyncio.create_task(guard.check(params("wait"), "a"))
        await asyncio.sleep(0.1)
        assert guard._process is not None
        guard._process.kill()
        await waiting
        deadly = asyncio.create_task(guard.check(params("sleep on"), "a"))
        killed = list[asyncio.subprocess.Process]()
        async with asyncio.timeout(60):
            while not deadly.done():
                process = guard._process
                if process is not None and process not in killed and compilers(guard):
                    killed.append(process)
                    process.kill()
                await asyncio.sleep(0.01)
        with pytest.raises(GrammarTooLargeError):
            await deadly
        assert [process.returncode for process in killed] == [-signal.SIGKILL] * 2
        assert not guard._compiling
        assert len(guard._known) == 2, "what no process has said is not kept"


async def test_a_process_that_is_killed_while_it_starts_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is when the engine's processes are ended: no grammar passes unchecked for it, then or later."""
    monkeypatch.setenv("TOY_COMPILER", "slow")
    async with guarding() as guard:
        waiting = asyncio.create_task(guard.check(params("eat"), "a"))
        await until(lambda: guard._process is not None)
        assert guard._process is not None
        guard._process.kill()
        monkeypatch.delenv("TOY_COMPILER")
        with pytest.raises(GrammarTooLargeError):
            await waiting
        assert (guard.verdicts["too_large"], guard.verdicts["unchecked"]) == (1, 0)


async def test_where_the_process_does_not_start_requests_pass_and_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No request fails for it."""
    monkeypatch.setenv("TOY_COMPILER", "broken")
    async with guarding() as guard:
        for n in range(3):
            await guard.check(params(f"spin {n}"), "a")
        assert guard.verdicts["unchecked"] == 3
        assert sum("grammars are not checked" in record.getMessage() for record in caplog.records) == 1
