"""The stages on a server of their own: its start and warm-up, an engine that is killed, and one that is recycled."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psutil
from own_server import running
from serving.client import MODEL_LEN, on_gpu

from gpu.parts import errors_in
from gpu.stages import Outcome, Show, StageError
from headway.api import AdminClient, AdminError, Status
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.traffic.workload import WORKLOADS
from headway_tools.demo.children import Family
from headway_tools.load.completions import Completions
from headway_tools.load.measured import Measured
from headway_tools.load.offered import Source
from headway_tools.load.run import Load, capacity_per_s, offer
from headway_tools.load.served import FAILED

_LOAD, _CLIENTS = 0.5, 8
_CAPACITY_S, _TRAFFIC_S, _END_S = 10.0, 25.0, 360.0
_SHORT_CAPACITY_S, _SHORT_TRAFFIC_S = 3.0, 8.0
_LOOK_S = 0.1
#: Whose requests wait for as long as an engine may take to be loaded: none of them may be refused.
_PATIENT, _CLASS = "offline", "batch"
_CORE = "EngineCore"
_WARM_UP = {"state", "single_s", "batch_s", "batch_size", "settled", "first_token_ratio"}
_ARRIVE = 2  # requests may arrive between the last look at the server and the kill
#: A server as it comes: on a GPU it compiles, whatever ``own_server`` sets for a processor.
_COMPILES = {"TORCHDYNAMO_DISABLE": "0"}


class Life:
    """The life of a server with this model, from the first of these stages until ``stack`` is closed."""

    def __init__(self, model: Path, log: Path, stack: AsyncExitStack, within_s: float, *, short: bool) -> None:
        self._model, self._log, self._stack, self._within_s = model, log, stack, within_s
        self._measure_s, self._traffic_s = (_SHORT_CAPACITY_S, _SHORT_TRAFFIC_S) if short else (_CAPACITY_S, _TRAFFIC_S)
        self._family: Family
        self._admin: AdminClient
        self._client: Completions
        self._source: Source
        self._rate_per_s = 0.0

    async def start(self, outcome: Outcome, show: Show) -> None:
        """Start the server, and measure how long that and the warm-up take, and what it can serve."""
        clock, token = asyncio.get_running_loop().time, secrets.token_hex(16)
        words = ["--host", "127.0.0.1", "--served-model-name", "model", "--max-model-len", str(MODEL_LEN)]
        command = [sys.executable, "-m", "headway", "serve", str(self._model), *words]
        environment = {"HEADWAY_ADMIN_TOKEN": token, **(_COMPILES if on_gpu() else {})}
        begin_s = clock()
        show("starts and warms up", 0.0)
        command += [] if on_gpu() else ["--quick-start"]
        server = running(command, environment, within_s=self._within_s, log=self._log)
        try:
            self._family, port = await self._stack.enter_async_context(server)
        except (RuntimeError, TimeoutError):
            raise StageError(f"the server did not get ready: {errors_in(self._log) or 'see serve.log'}") from None
        outcome.figures["start_s"] = round(clock() - begin_s, 1)
        url = f"http://127.0.0.1:{port}"
        self._admin = self._stack.enter_context(AdminClient(url, token))
        status = await self._status()
        engine, warmup = status.engine, status.warmup
        outcome.figures["warmup"] = warmup.model_dump(include=_WARM_UP)
        outcome.figures["warmup_rounds_s"] = warmup.stages
        known = {"dtype", "quantization", "kv_cache_dtype", "kv_cache_tokens", "max_model_len", "step_tokens"}
        outcome.figures["engine"] = engine.model_dump(include=known)
        outcome.check(warmup.state == "done", f"the warm-up is {warmup.state or 'not known'}")
        self._client = await self._stack.enter_async_context(Completions(url, timeout_s=_END_S))
        self._source = Source(WORKLOADS["W1"], classes={_CLASS: 1.0}, max_tokens=self._client.model.max_tokens)
        show("the capacity", 0.8)
        found_per_s = await capacity_per_s(self._client, self._source, 1, _CLIENTS, self._measure_s)
        self._rate_per_s = _LOAD * found_per_s
        outcome.figures[f"requests_per_s_of_{_CLIENTS}_clients"] = round(found_per_s, 2)
        revision = (await self._status()).preset.revision
        await asyncio.to_thread(self._admin.switch, _PATIENT, revision=revision, reason="gpu-check")

    async def kill(self, outcome: Outcome, show: Show) -> None:
        """Kill the engine under load: it is replaced, and each request gets an end."""
        clock, deaths = asyncio.get_running_loop().time, _total((await self._status()).engine.deaths)
        async with self._traffic(outcome) as load:
            core = self._core()
            await self._until(lambda status: status.in_flight > 1, load)
            show("the engine is killed", 0.3)
            at_kill, begin_s = await self._status(), clock()
            core.kill()
            may_break = at_kill.in_flight + _ARRIVE
            await self._until(lambda status: _total(status.engine.deaths) > deaths and status.ready)
            outcome.figures |= {"replaced_s": round(clock() - begin_s, 1), "running_at_kill": at_kill.in_flight}
            show("a new engine serves", 0.7)
            broken = (await load).all.endings[FAILED]
        outcome.check(broken <= may_break, f"{broken} answers broke off, and {at_kill.in_flight} requests were running")

    async def recycle(self, outcome: Outcome, show: Show) -> None:
        """Replace the engine alive under load: no request notices."""
        clock, recycled = asyncio.get_running_loop().time, _total((await self._status()).memory.recycled)
        async with self._traffic(outcome) as load:
            await self._until(lambda status: status.in_flight > 1, load)
            show("the engine is recycled", 0.3)
            begin_s = clock()
            await asyncio.to_thread(self._admin.recycle, reason="gpu-check")
            after = await self._until(lambda status: _total(status.memory.recycled) > recycled and status.ready)
            form = after.memory.recycle_form.partition(":")[0]
            outcome.figures |= {"recycled_s": round(clock() - begin_s, 1), "new_engine": form}
            show("a new engine serves", 0.7)
            broken = (await load).all.endings[FAILED]
        outcome.check(not broken, f"{broken} answers broke off")

    @asynccontextmanager
    async def _traffic(self, outcome: Outcome) -> AsyncIterator[asyncio.Task[Measured]]:
        """Chat at half of what can be served; the figures and the lost requests are in the outcome at the end."""
        requests = self._source.requests(2, self._rate_per_s, self._traffic_s)
        load = Load(requests, self._traffic_s, Slo(), _END_S)
        task = asyncio.create_task(offer(self._client, load, lambda words, done: None))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if not task.cancelled() and task.exception() is None:
                _keep(outcome, task.result(), len(requests))

    def _core(self) -> psutil.Process:
        """EngineCore, as it is now."""
        tree = psutil.Process(self._family.children[0].process.pid).children(recursive=True)
        found = next((one for one in tree if _CORE in " ".join(one.cmdline())), None)
        if found is None:
            raise StageError("no process of the engine was found")
        return found

    async def _status(self) -> Status:
        return await asyncio.to_thread(self._admin.status)

    async def _until(self, condition: Callable[[Status], bool], load: asyncio.Task[Measured] | None = None) -> Status:
        """The first status for which this is so, before the end of the ``load``; the stage's time bounds it."""
        while True:
            try:
                status = await self._status()
            except AdminError:
                status = None
            if status is not None and condition(status):
                return status
            if self._family.children[0].exit_code is not None:
                raise StageError("the server ended")
            if load is not None and load.done():
                raise StageError("the traffic ended before two requests ran at once")
            await asyncio.sleep(_LOOK_S)


def _total(counts: dict[str, int]) -> int:
    return sum(counts.values())


def _keep(outcome: Outcome, measured: Measured, sent: int) -> None:
    """Put what became of the requests into the outcome."""
    found = measured.all
    outcome.figures |= {
        "sent": sent,
        "sent_after_the_first_tenth": found.offered,  # what the next three are of
        "completed": found.completed,
        "refused": dict(found.refused),
        "broken_off": found.endings[FAILED],
        "lost": measured.unanswered,
        "first_token_p95_s": found.ttft.quantile(0.95),
    }
    outcome.check(not found.refused, f"{found.refused.total()} requests were refused")
    outcome.check(not measured.unanswered, f"{measured.unanswered} requests got neither an answer nor a refusal")
