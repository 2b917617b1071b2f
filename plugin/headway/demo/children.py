"""Processes that leave nothing behind.

Each child leads a session of its own, so that Ctrl-C in the terminal reaches us alone and we choose the order of the
end. A stop is SIGTERM to the child, then to what is left of its tree, then SIGKILL. Its tree is every process ever seen
below it or in its session: a grandchild whose parent died belongs to init, but stays in the session.
A known gap: a process that leaves the session and loses its parent between two looks (``LOOK_EVERY_S``) is not found.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

LOOK_EVERY_S = 1.0
_POLL_S = 0.05
_ORPHANS_GRACE_S = 2.0
_KILL_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Child:
    """A process of ours and the file its output goes to."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative where a signal ended it."""
        return self.process.poll()

    def last_lines(self, count: int) -> list[str]:
        """The end of its output."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return [line for line in text.splitlines() if line.strip()][-count:]


class Family:
    """The children of one run, and everything they start."""

    def __init__(self, grace_s: float = 15.0) -> None:
        self.children: list[Child] = []
        self._grace_s = grace_s
        self._seen: set[psutil.Process] = set()

    def start(self, name: str, command: Sequence[str], environ: Mapping[str, str], log: Path) -> Child:
        """Start a child without standard input; its output goes to ``log``."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        child = Child(name, process, log)
        self.children.append(child)
        self._look()
        return child

    async def first_exit(self) -> Child:
        """Wait until a child ends by itself, looking for its descendants meanwhile."""
        while True:
            for child in self.children:
                if child.exit_code is not None:
                    return child
            self._look()
            await asyncio.sleep(LOOK_EVERY_S)

    def hurry(self) -> None:
        """Let the next step of a stop come at once."""
        self._grace_s = 0.0

    async def stop(self) -> list[int]:
        """End every process of every child. Returns the ids of those that could not be ended: normally none."""
        self._look()
        for child in self.children:
            if child.exit_code is None:
                child.process.terminate()
        await self._gone_within(self._grace_s, orphans_s=_ORPHANS_GRACE_S)
        for step in (signal.SIGTERM, signal.SIGKILL):
            _signal(self._alive(), step)
            await self._gone_within(_ORPHANS_GRACE_S if step is signal.SIGTERM else _KILL_GRACE_S)
        return sorted(process.pid for process in self._alive())

    async def _gone_within(self, limit_s: float, orphans_s: float | None = None) -> None:
        """Wait for the end of all; ``orphans_s`` is how long the rest may take once all children have ended."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + limit_s
        while self._alive() and clock() < min(until_s, clock() + self._grace_s or until_s):
            if orphans_s is not None and all(child.exit_code is not None for child in self.children):
                until_s, orphans_s = min(until_s, clock() + orphans_s), None
            await asyncio.sleep(_POLL_S)
            self._look()

    def _look(self) -> None:
        sessions = {child.process.pid for child in self.children}
        for process in psutil.process_iter():
            if _session(process.pid) in sessions:
                self._seen.add(process)
        for known in list(self._seen):
            self._seen.update(_descendants(known))

    def _alive(self) -> list[psutil.Process]:
        for child in self.children:
            child.process.poll()  # takes its exit code, so that it is no zombie
        return [process for process in self._seen if _runs(process)]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _runs(process: psutil.Process) -> bool:
    """Whether it still runs; a zombie has ended, only its parent has not asked yet."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)  # psutil compares start times first: a reused id is not hit
        except psutil.Error:
            continue
