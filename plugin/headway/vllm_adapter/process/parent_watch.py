"""A watch on the parent process: no process of a server outlives it.

vLLM's EngineCore and workers continue, and keep the GPU's memory, when their parent is killed; a process that is still
importing cannot even notice. So a process that is about to start an engine, and EngineCore when it is about to start
its workers, starts another process first (``orphan_killer``). The other process waits for its starter's end and kills
the processes left behind, at any moment, also stopped ones.

A process is identified by a mark in its environment, which each program started below the server inherits; EngineCore
adds its own. A server started below another one has both marks, and ends with the outer one too. ``SPT_NOENV`` keeps
``setproctitle`` from overwriting that environment. ``PR_SET_PDEATHSIG`` would need code in the child, and ends it with
a parent *thread*.

Known weak spots: a process under another user, and one below the server that clears its environment, are not found. A
program that wraps an engine and starts a daemon meant to outlive it must take the mark out of the daemon's environment.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from headway.settings import Environment
from headway.vllm_adapter.process import orphan_killer

VARIABLE = Environment.server_marks.name
_KEEP_ENVIRONMENT = "SPT_NOENV"
_NOT_FOR_THE_KILLER = (VARIABLE, "LD_PRELOAD")


def watch_starts(starter: type[Any] | None, prepare: Callable[[Any], None] | None = None) -> None:
    """Watch a process before it makes an instance of this vLLM class, which starts processes; then call ``prepare``
    with the configuration of the engine.
    """
    start: Any = getattr(starter, "__init__", None)
    if starter is None or getattr(start, "headway_watches", False):
        return

    def watch_and_start(self: Any, *arguments: Any, **options: Any) -> None:
        watch_this_process()
        if prepare is not None:
            prepare(options.get("vllm_config"))
        start(self, *arguments, **options)

    setattr(watch_and_start, "headway_watches", True)  # noqa: B010 - how it is known the next time; mypy knows no such name
    setattr(starter, "__init__", watch_and_start)  # noqa: B010 - a plain assignment is one that mypy refuses


class _Watch:
    """The watched end: the pipe that ends with this process, and the marked file that a forked child keeps.

    ``before`` is a watch of this process whose killer has died; its mark and its files are taken over.
    """

    def __init__(self, before: _Watch | None = None) -> None:
        self.mark: str = f"headway-{secrets.token_hex(16)}" if before is None else before.mark
        self.pid = os.getpid()
        self._told: list[str] = []
        if before is None:
            os.environ[VARIABLE] = ":".join(mark for mark in (os.environ.get(VARIABLE, ""), self.mark) if mark)
        os.environ.setdefault(_KEEP_ENVIRONMENT, "1")
        reading, self._writing = os.pipe()
        self._marked = os.memfd_create(self.mark)
        os.register_at_fork(after_in_child=self.let_go)
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_THE_KILLER}
        self._killer = subprocess.Popen(  # noqa: S603 - our own file, by its path
            [sys.executable, "-I", "-S", str(Path(orphan_killer.__file__))],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
        os.close(reading)
        self.tell(self.mark)
        if before is not None:
            before.let_go()
            for path in before._told[1:]:
                self.tell(path)

    @property
    def holds(self) -> bool:
        """Whether the killer still waits for the end of this process, and not of the one that has forked it."""
        return self.pid == os.getpid() and self._killer.poll() is None

    def tell(self, line: str) -> None:
        """Write one line for the killer: the mark, then files and folders to remove."""
        self._told.append(line)
        with suppress(BrokenPipeError):  # it has ended: the next start of an engine starts another one
            os.write(self._writing, f"{line}\n".encode())

    def let_go(self) -> None:
        """Close the pipe: in a child that was only forked, which must not keep it open."""
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1


_watch: _Watch | None = None


def watch_this_process() -> None:
    """Have no process that this one starts from now on outlive it. Linux only.

    A further call does nothing, unless the killer has died: then it starts another one, with the same mark.
    """
    global _watch
    if sys.platform == "linux" and (_watch is None or not _watch.holds):
        _watch = _Watch(_watch if _watch is not None and _watch.pid == os.getpid() else None)


def remove_at_the_end(path: str) -> None:
    """Have a file, or a folder of files, removed after the end of this process, where it is watched."""
    if _watch is not None and _watch.pid == os.getpid():
        _watch.tell(path)


def is_killer(process: psutil.Process) -> bool:
    """Whether this process is an orphan killer: a killed one would leave the orphans of the process it watches."""
    try:
        return orphan_killer.__file__ in process.cmdline()
    except psutil.Error:
        return False
