"""The demo from the first check to the last line: whatever ends it, no process is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import TextIO

from headway.api import AdminError
from headway.errors import HeadwayError
from headway_tools.console import INTERRUPTED, CliError, Exit, FailedError, as_cli_error
from headway_tools.demo.children import Child, Family, adopt_orphans
from headway_tools.demo.options import Options
from headway_tools.demo.play import Play
from headway_tools.demo.report import as_json, text
from headway_tools.demo.summary import Check, Summary, check_that

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_S = 15.0
_LOADING_GRACE_S = 2.0  # no request is being served, and vLLM does not end quickly while it loads
_TAIL_LINES = 12
_NOISE = ("nanobind", " - leaked", " - ...", "See https://nanobind", "  warnings.warn(")
_CRASH_SHOWS_WITHIN_S = 2.0
Result = tuple[Summary, list[Check]]


def run(options: Options) -> int:
    """Run the demo, which was checked; returns its exit code. Raises FailedError."""
    adopt_orphans()
    return asyncio.run(_Show(options).run())


class _Show:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._out: TextIO = sys.stderr if options.as_json else sys.stdout
        self._family = Family()
        self._stop = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._interrupt)
        folder = Path(tempfile.mkdtemp(prefix="headway-demo-"))
        play = Play(self._options, folder, self._family, self._out)
        keep_logs = True
        try:
            result = await self._until_the_end(play.run())
            keep_logs = False
            if result is None and (summary := await play.so_far()) is not None:
                print(text(summary, []), file=self._out, flush=True)
        except (AdminError, CliError, HeadwayError) as error:
            ended = as_cli_error(error) if isinstance(error, AdminError) else error
            raise FailedError(f"{ended}; the logs are in {folder}") from None
        finally:
            left = await self._family.stop(_GRACE_S if play.running else _LOADING_GRACE_S)
            (folder / "admin.token").unlink(missing_ok=True)
            if not keep_logs and not left:
                shutil.rmtree(folder, ignore_errors=True)
        return self._close(result, left, was_running=play.running)

    def _interrupt(self) -> None:
        """Ctrl-C stops, also where nothing can be printed any more; a second one stops at once."""
        if self._stop.is_set():
            self._family.hurry()
            return
        self._stop.set()
        with contextlib.suppress(OSError, ValueError):  # the terminal, or the reader of a pipe, is gone
            print("\nStopping ...", file=self._out, flush=True)

    async def _until_the_end(self, playing: Coroutine[None, None, Result]) -> Result | None:
        """The result of the run, or None where a signal came first. A child that ends is a failure."""
        play = asyncio.create_task(playing)
        stopped = asyncio.create_task(self._stop.wait())
        ended = asyncio.create_task(self._family.first_exit())
        tasks: tuple[asyncio.Task[Result] | asyncio.Task[bool] | asyncio.Task[Child], ...] = (play, stopped, ended)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                return None
            if play.done() and play.exception() is not None:  # perhaps only because a server is gone: look a moment
                await asyncio.wait([ended], timeout=_CRASH_SHOWS_WITHIN_S)
            if ended.done():
                raise FailedError(self._obituary(ended.result()))
            return play.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _obituary(self, child: Child) -> str:
        lines = [line for line in child.output() if not line.startswith(_NOISE)]
        mark = "headway: error: "
        own = next((line.partition(mark)[2] for line in reversed(lines) if mark in line), None)
        print(f"\nThe last lines of {child.log.name}:", file=sys.stderr)
        print("\n".join(f"  | {line}" for line in lines[-_TAIL_LINES:]), file=sys.stderr, flush=True)
        return f"the {child.name} ended with exit code {child.exit_code}" + (f": {own}" if own else "")

    def _close(self, result: Result | None, left: list[int], *, was_running: bool) -> int:
        none_left = check_that("no process is left", not left, f"still there: {', '.join(map(str, left))}")
        if result is None:
            print(
                "Stopped; no process is left." if none_left.held else f"Stopped; {none_left.detail}",
                file=self._out,
            )
            if left:
                return Exit.FAILED
            return Exit.OK if was_running and self._options.exit_after_s is None else INTERRUPTED
        summary, checked = result
        checked = [*checked, none_left]
        print(as_json(summary, checked) if self._options.as_json else text(summary, checked), flush=True)
        return Exit.OK if all(check.held for check in checked) else Exit.FAILED
