"""Child processes of the demo, ended with all their descendants.

Each child leads a session of its own, so that Ctrl-C in the terminal reaches us alone and we choose the order of the
end. A stop is SIGTERM to the child, then to what is left of its tree, then SIGKILL. Its tree is every process ever seen
below it or in its session: a grandchild whose parent died belongs to init, but stays in the session.
``adopt_orphans`` makes such grandchildren ours instead of init's, so that no zombie waits for an init that never asks.
A known gap: a process that leaves the session and loses its parent between two looks (``LOOK_EVERY_S``) is not found.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

LOOK_EVERY_S = 1.0
_POLL_S = 0.1
_ORPHANS_GRACE_S = 2.0
_KILL_GRACE_S = 5.0
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True, slots=True)
class Child:
    """A process of ours and the file its output goes to."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the child runs, negative where a signal ended it."""
        return self.process.poll()

    def output(self) -> list[str]:
        """The lines that the process has printed so far, without empty lines."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return [line for line in text.splitlines() if line.strip()]


def adopt_orphans() -> bool:
    """Become the parent of every orphan below this process (Linux, prctl(2)). Returns whether that is so."""
    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


class Family:
    """The children of one run, and everything they start."""

    def __init__(self) -> None:
        self.children: list[Child] = []
        self._hurried = False
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
        """Let a stop kill at once what it would still wait for."""
        self._hurried = True

    async def stop(self, grace_s: float) -> list[int]:
        """End every process of every child; ``grace_s`` is how long the children may take to end theirs themselves.

        Returns the ids of those that could not be ended: normally none.
        """
        self._look()
        for child in self.children:
            if child.exit_code is None:
                child.process.terminate()
        await self._wait(grace_s, orphans_s=_ORPHANS_GRACE_S)
        _signal(self._alive(), signal.SIGTERM)
        await self._wait(_ORPHANS_GRACE_S)
        _signal(self._alive(), signal.SIGKILL)
        self._hurried = False
        await self._wait(_KILL_GRACE_S)
        return sorted(process.pid for process in self._alive())

    async def _wait(self, limit_s: float, orphans_s: float | None = None) -> None:
        """Wait for the end of all; ``orphans_s`` is how long the rest may take once every child has ended."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + limit_s
        while self._alive() and clock() < until_s and not self._hurried:
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
        own = {child.process.pid for child in self.children if child.process.poll() is None}
        parents = {os.getpid()} | {process.pid for process in self._seen}
        for process in self._seen:
            if process.pid not in own:
                _reap(process)
        return [process for process in self._seen if _is_there(process, parents)]


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


def _is_there(process: psutil.Process, parents: set[int]) -> bool:
    """Whether a process still runs, or has ended and one of ``parents`` must still reap it."""
    try:
        if not process.is_running():
            return False
        return process.status() != psutil.STATUS_ZOMBIE or process.ppid() in parents
    except psutil.Error:
        return False


def _reap(process: psutil.Process) -> None:
    """Take the exit code of an orphan we adopted, if it has ended."""
    try:
        if process.ppid() == os.getpid() and process.status() == psutil.STATUS_ZOMBIE:
            os.waitpid(process.pid, os.WNOHANG)
    except (psutil.Error, ChildProcessError):
        return


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)  # psutil compares start times first: a reused id is not hit
        except psutil.Error:
            continue
