"""The demo's run: start, wait until ready, traffic, one switch, the figures."""

from __future__ import annotations

import asyncio
import itertools
import os
import shlex
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TextIO

from headway.console import FailedError, cpu_backend
from headway.demo.children import Family
from headway.demo.drive import Driver, Served
from headway.demo.loading import Progress
from headway.demo.options import Options
from headway.demo.parts import dashboard_command, environment, own_command, server_command, write_token
from headway.demo.server import Servers
from headway.demo.summary import Check, Summary, check_that, checks, summarise
from headway.demo.traffic import CLASSES, arrivals

SEED = 7
_READY_WITHIN_S = 900.0
_DASHBOARD_WITHIN_S = 90.0
_POLL_S = 0.5
_SETTLE_WITHIN_S = 180.0
_KEPT_RECORDS = 1000


class Play:
    """One demo between the checks before it and the end of its processes."""

    def __init__(self, options: Options, folder: Path, family: Family, out: TextIO) -> None:
        self.running = False  # both servers answer
        self._options = options
        self._folder = folder
        self._family = family
        self._out = out
        self._token_file = write_token(folder)
        self._servers = Servers(options, self._token_file.read_text(encoding="utf-8").strip())

    async def run(self) -> tuple[Summary, list[Check]]:
        """Play it. Without ``exit_after_s`` it goes on until it is cancelled."""
        await self._start()
        records: deque[Served] = deque(maxlen=_KEPT_RECORDS if self._options.exit_after_s is None else None)
        driver = Driver(self._options.server_url, self._options.model_name, records.append)
        try:
            if self._options.exit_after_s is None:
                await driver.send(arrivals(SEED, self._options.rate_per_s))
            return await self._measure(driver, records, self._options.exit_after_s or 0.0)
        finally:
            await driver.close()

    async def _start(self) -> None:
        environ = environment(os.environ, self._token_file)
        self._say(f"Loading {self._options.model} into vLLM on {'the CPU' if cpu_backend() else 'the GPU'}")
        log = self._folder / "server.log"
        self._family.start("server", server_command(self._options), environ, log)
        progress = Progress(self._out)
        await self._until(self._servers.server_ready, _READY_WITHIN_S, "server", lambda: progress.show(log))
        progress.done()
        # Only now: on two cores its start would take time from the engine's.
        command = dashboard_command(self._options)
        self._family.start("dashboard", command, environ, self._folder / "dashboard.log")
        await self._until(self._servers.dashboard_healthy, _DASHBOARD_WITHIN_S, "dashboard")
        self.running = True
        self._say(self._invitation())

    async def _until(
        self,
        answers: Callable[[], Awaitable[bool]],
        within_s: float,
        name: str,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        clock = asyncio.get_running_loop().time
        until_s = clock() + within_s
        while not await answers():
            if clock() > until_s:
                raise FailedError(f"the {name} is not ready after {within_s:.0f} s; see {self._folder / name}.log")
            meanwhile()
            await asyncio.sleep(_POLL_S)

    async def _measure(self, driver: Driver, records: deque[Served], length_s: float) -> tuple[Summary, list[Check]]:
        clock = asyncio.get_running_loop().time
        first, before = await self._servers.counts(), await self._servers.preset_seen()
        begin_s = clock()
        due = itertools.takewhile(lambda one: one.at_s < length_s, arrivals(SEED, self._options.rate_per_s))
        sending = asyncio.create_task(driver.send(due))
        try:
            await asyncio.sleep(length_s / 2)
            name = await self._servers.switch()
            after = await self._servers.preset_seen()
            self._say(f"  switched from {before.name} to {name}: {before.limit} -> {after.limit} seats")
            await asyncio.sleep(begin_s + length_s - clock())
            await sending
        finally:
            sending.cancel()
        self._say(f"  {length_s:.0f} s are over; waiting for the last answers")
        await driver.settle(_SETTLE_WITHIN_S)
        ran_s = clock() - begin_s
        healthy = await self._servers.dashboard_healthy()
        last, after = await self._servers.counts(), await self._servers.preset_seen()
        sent = {name: driver.sent.get(name, 0) for name in CLASSES}
        summary = summarise(list(records), sent, ran_s, (first, last), (before, after))
        return summary, [
            *checks(summary, CLASSES),
            check_that("the dashboard answers", healthy, "its health URL does not"),
        ]

    def _invitation(self) -> str:
        options = self._options
        body = (
            f'{{"model": "{options.model_name}", "max_tokens": 40, '
            '"messages": [{"role": "user", "content": "What is a scheduler?"}]}'
        )
        until = "Ctrl-C stops everything." if options.exit_after_s is None else ""
        return f"""
OpenAI API  {options.server_url}/v1
Dashboard   {options.dashboard_url}
Logs        {self._folder}

Try a chat completion of the most urgent class:
  curl -s {options.server_url}/v1/chat/completions -H 'Content-Type: application/json' \\
    -H 'x-headway-class: realtime' -d {shlex.quote(body)}

Try another preset, and watch the limit on the dashboard:
  HEADWAY_ADMIN_TOKEN_FILE={shlex.quote(str(self._token_file))} \\
    {own_command()} preset use throughput --url {options.server_url}

Light traffic of three classes is running. {until}""".rstrip()

    def _say(self, words: str) -> None:
        print(words, file=self._out, flush=True)
