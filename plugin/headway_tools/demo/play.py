"""The demo's run: start, wait until ready, light traffic, an overload, one switch, light traffic, the figures."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TextIO

from headway.api import AdminError
from headway_tools.console import CliError, FailedError, cpu_backend
from headway_tools.demo.children import Family
from headway_tools.demo.loading import Progress
from headway_tools.demo.options import Options
from headway_tools.demo.overload.figures import OverloadFigures
from headway_tools.demo.overload.phase import Lengths, Overload
from headway_tools.demo.overload.report import overload_lines
from headway_tools.demo.parts import dashboard_command, environment, own_command, server_command, write_token
from headway_tools.demo.server import Servers, counts_when_idle
from headway_tools.demo.summary import Check, PresetSeen, Summary, check_that, checks, summarise
from headway_tools.demo.traffic import CLASSES, between
from headway_tools.load.completions import Completions
from headway_tools.load.run import open_files
from headway_tools.load.scrape import Counts
from headway_tools.load.sender import Sender
from headway_tools.load.served import Served

SEED = 7
_READY_WITHIN_S = 900.0
_DASHBOARD_WITHIN_S = 90.0
_REQUEST_WITHIN_S = 180.0
_POLL_S = 0.5
_SETTLE_WITHIN_S = 180.0
_KEPT_RECORDS = 100_000  # of an endless demo; of more requests the clients' figures are those of the last ones
_FIRST_PART_S = 60.0  # of an endless demo, before its overload
_MEASURE_WITHIN_S = 30.0
_EXCEED_S = 40.0
_SO_FAR_WITHIN_S = 3.0


class Play:
    """The demo between the checks before it and the end of its processes."""

    def __init__(self, options: Options, folder: Path, family: Family, out: TextIO) -> None:
        self.running = False  # both servers answer
        self._options = options
        self._folder = folder
        self._family = family
        self._out = out
        self._token_file = write_token(folder)
        self._servers = Servers(options, self._token_file.read_text(encoding="utf-8").strip())
        self._records: deque[Served] = deque(maxlen=_KEPT_RECORDS if options.exit_after_s is None else None)
        self._dropped: Counter[str] = Counter()
        self._clients = Completions(options.server_url, model=options.model_name, timeout_s=_REQUEST_WITHIN_S)
        self._drivers: list[Sender] = []
        self._begin_s = 0.0
        self._first: Counts | None = None
        self._before: PresetSeen | None = None
        self._overload: OverloadFigures | None = None

    async def run(self) -> tuple[Summary, list[Check]]:
        """Play the scenario. Without ``exit_after_s`` it goes on until it is cancelled."""
        await self._start()
        open_files()
        async with self._clients:  # which send a request of their own first
            return await self._traffic(self._part_s)

    async def _traffic(self, part_s: float) -> tuple[Summary, list[Check]]:
        """Light traffic, the overload, and light traffic again."""
        self._first, self._before = await counts_when_idle(self._servers), await self._servers.preset_seen()
        self._begin_s = asyncio.get_running_loop().time()
        light = self._driver_for(lambda request: None)
        try:
            await self._light(light, 0.0, part_s)
            await self._overloaded(part_s)
            if self._options.exit_after_s is None:
                self._say("\n".join(overload_lines(self._overload)) if self._overload else "")
                self._say("Light traffic goes on. Ctrl-C stops everything.")
                await light.send(between(SEED, self._options.rate_per_s, part_s))
            return await self._switched(light, part_s)
        finally:
            for driver in self._drivers:
                await driver.abandon()

    @property
    def _part_s(self) -> float:
        """The length of the light traffic before the overload, and after it where the demo ends by itself."""
        return _FIRST_PART_S if self._options.exit_after_s is None else self._options.exit_after_s / 2

    async def so_far(self) -> Summary | None:
        """The figures of a run that was interrupted; None before its traffic, or where the server does not answer."""
        if self._first is None:
            return None
        try:
            async with asyncio.timeout(_SO_FAR_WITHIN_S):
                return self._summary(await self._servers.counts(), await self._servers.preset_seen())
        except (AdminError, CliError, TimeoutError):
            return None

    async def _start(self) -> None:
        environ = environment(os.environ, self._token_file)
        self._say(f"Loading {self._options.model} into vLLM on {'the CPU' if cpu_backend() else 'the GPU'}")
        self._say("  a quick start: the model is not compiled, so tokens take longer than with `headway serve`")
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

    async def _light(self, light: Sender, from_s: float, until_s: float) -> None:
        """Send this part of the light traffic, as long as it lasts, and wait for its answers."""
        clock = asyncio.get_running_loop().time
        begin_s = clock()
        await light.send(between(SEED, self._options.rate_per_s, from_s, until_s))
        await asyncio.sleep(begin_s + until_s - from_s - clock())
        self._say(f"  {until_s - from_s:.0f} s of light traffic are over; waiting for the last answers")
        await light.settle(_SETTLE_WITHIN_S)

    async def _overloaded(self, part_s: float) -> None:
        assert self._first is not None
        now = await self._servers.counts()
        lengths = Lengths(min(_MEASURE_WITHIN_S, part_s), min(_EXCEED_S, part_s * 4 / 3))
        overload = Overload(self._servers, self._driver_for, self._say, SEED)
        self._overload = await overload.run(lengths, now.since(self._first))

    async def _switched(self, light: Sender, part_s: float) -> tuple[Summary, list[Check]]:
        """The second part of the light traffic, under another preset; then the figures and the checks."""
        before, name = await self._servers.preset_seen(), await self._servers.switch()
        after = await self._servers.preset_seen()
        self._say(f"  switched from {before.name} to {name}: {before.limit} -> {after.limit} seats")
        self._say("  light traffic again")
        await self._light(light, part_s, 2 * part_s)
        healthy = await self._servers.dashboard_healthy()
        summary = self._summary(await counts_when_idle(self._servers), await self._servers.preset_seen())
        return summary, [
            *checks(summary, CLASSES),
            check_that("the dashboard answers", healthy, "its health URL does not"),
        ]

    def _driver_for(self, record: Callable[[Served], None]) -> Sender:
        """Clients whose requests count in the summary, too."""

        def recorded(request: Served) -> None:
            if len(self._records) == self._records.maxlen:
                self._dropped[self._records[0].class_name] += 1
            self._records.append(request)
            record(request)

        driver = Sender(self._clients.complete, recorded)
        self._drivers.append(driver)
        return driver

    def _summary(self, last: Counts, after: PresetSeen) -> Summary:
        assert self._first is not None
        assert self._before is not None
        sent = {name: sum(driver.sent[name] for driver in self._drivers) - self._dropped[name] for name in CLASSES}
        ran_s = asyncio.get_running_loop().time() - self._begin_s
        presets = (self._before, after)
        return summarise(list(self._records), sent, ran_s, (self._first, last), presets, self._overload)

    def _invitation(self) -> str:
        options = self._options
        body = (
            f'{{"model": "{options.model_name}", "max_tokens": 40, '
            '"messages": [{"role": "user", "content": "What is a scheduler?"}]}'
        )
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

Light traffic of three classes is running; an overload follows after {self._part_s:.0f} s. Ctrl-C stops everything."""

    def _say(self, words: str) -> None:
        print(words, file=self._out, flush=True)
