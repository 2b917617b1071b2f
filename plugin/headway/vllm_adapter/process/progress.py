"""EngineCore's progress reports: whether a step or a call is under way, and whether its process lives.

Its busy thread answers no query during a step or a call, so it records the beginning and the end of each, and a second
thread counts for as long as the process lives. Both records are in a small file that EngineCore and the API server map
into their memory: reading it needs no other process and cannot block. ``headway_policies.engine.watchdog`` judges.

The thread also looks at the processes below EngineCore: how many are stopped, and, on a CPU, how much CPU time they
have used (compilers that they started included). On a GPU a step may wait for the device without using any, so no CPU
time is reported there.

Grammars are compiled in a pool of threads, beside the steps: the reports say for how long, and whether others wait.

The figures of the step policy are in the same file, where EngineCore has one: they are read without asking it.

A program may have several engines, wrapped or not. Each has its own file, with a place for each of its ranks.
"""

from __future__ import annotations

import functools
import logging
import mmap
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from headway.settings import Environment
from headway.vllm_adapter.process.parent_watch import remove_at_the_end
from headway.vllm_adapter.process.step_fields import STEP_UNITS, packed, unpacked
from headway_policies import Progress
from headway_policies.step import StepFigures

log = logging.getLogger(__name__)

VARIABLE = Environment.engine_progress.name
_REPORTER = "headway_reporter"

_MAX_ENGINES = 64
_FIELDS = 24  # 192 bytes for each engine, one of 8 bytes is read or written at once
REPORTS_BYTES = _MAX_ENGINES * _FIELDS * 8
#: Behind the reports, for what the engine has to keep (``limits_page``).
PAGE_BYTES = 4096
#: Behind that, for the last steps of each engine (``step_ring``). A record that is never written takes no room.
RING_BYTES = 65536
FILE_BYTES = REPORTS_BYTES + PAGE_BYTES + _MAX_ENGINES * RING_BYTES
_PID, _BEATS, _WORKS, _STOPPED, _CPU_MS, _COMPILING_MS, _HELD_MS = range(7)
_STEP_FIGURES = slice(12, 12 + len(STEP_UNITS))
_BEAT_S = 0.5
_CENSUS_BEATS = 120
_STOPPED_STATES = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
STEPS = ("step", "step_with_batch_queue")
_CALLS = ("_handle_client_request",)


_prepared_by: int | None = None  # the process of these files: the variable alone may be that of a server above it
_files: dict[str, str] = {}  # by the engine; "": for any


def engine_of(config: Any) -> str:
    """The engine of this configuration, by vLLM's own name for it, which stays when it is replaced; "" without one."""
    return str(getattr(config, "instance_id", ""))


def prepare_progress(engine: str = "") -> None:
    """Make the file of an engine before it is started; its name is passed in the environment."""
    global _prepared_by
    if _prepared_by != os.getpid():
        _files.clear()
        _prepared_by = os.getpid()
    path = _files.get("") or _files.get(engine)
    if path is None:
        handle, path = tempfile.mkstemp(prefix="headway-", suffix=".progress")
        os.truncate(handle, FILE_BYTES)
        os.close(handle)
        remove_at_the_end(path)
        _files[engine] = path
    os.environ[VARIABLE] = path


def progress_file(engine: str = "") -> Path:
    """The file of an engine that this process has started, else of the server's engine. Raises KeyError without one."""
    return Path(_files.get(engine) or os.environ[VARIABLE])


def ring_start(index: int) -> int:
    """The place of an engine's ring in the file."""
    return REPORTS_BYTES + PAGE_BYTES + index % _MAX_ENGINES * RING_BYTES


def keep_progress() -> None:
    """Make no file: that of the process above this one is also that of its engine."""
    global _prepared_by
    if VARIABLE in os.environ:
        _prepared_by = os.getpid()
        _files.clear()
        _files[""] = os.environ[VARIABLE]


def report_progress(core: type[Any], proc: type[Any] | None) -> None:
    """Have EngineCore, in its own process, record each step, and each call it answers between two steps."""
    if VARIABLE not in os.environ or hasattr(core, "headway_reports_progress"):
        return
    core.headway_reports_progress = True
    for owner, names in ((core, STEPS), (proc, _CALLS)):
        for name in names:
            work = getattr(owner, name, None)
            if work is not None:
                setattr(owner, name, _reported(work))


def report_steps(core: Any, figures: StepFigures) -> None:
    """In EngineCore's process: report these figures, as they will be at each beat, where progress is reported."""
    reporter = _reporter_of(core) if hasattr(core, "headway_reports_progress") else None
    if reporter is not None:
        reporter.steps = figures


class Compilations:
    """The grammars that this process compiles, and those that wait for a thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asked = self._begun = 0
        self._began_s: dict[int, float] = {}
        self._moved_s = clock()

    def asked(self) -> None:
        """Count another grammar to be compiled."""
        with self._lock:
            if self._asked <= self._begun:
                self._moved_s = self._clock()
            self._asked += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Mark a block in which the current thread compiles a grammar."""
        thread = threading.get_ident()
        with self._lock:
            self._begun += 1
            self._began_s[thread] = self._moved_s = self._clock()
        try:
            yield
        finally:
            with self._lock:
                del self._began_s[thread]
                self._moved_s = self._clock()

    def longest_s(self) -> float:
        """The age of the oldest running compilation; 0 without one."""
        with self._lock:
            return self._clock() - min(self._began_s.values()) if self._began_s else 0.0

    def held_s(self) -> float:
        """The time for which grammars have waited while no compilation began or ended; 0 without waiting grammars."""
        with self._lock:
            return self._clock() - self._moved_s if self._asked > self._begun and self._began_s else 0.0


_COMPILATIONS = Compilations()


def report_compilations(manager: type[Any] | None, compilations: Compilations = _COMPILATIONS) -> None:
    """Have EngineCore, in its own process, record each grammar that its ``StructuredOutputManager`` compiles."""
    ask, compile_one = (getattr(manager, name, None) for name in ("grammar_init", "_create_grammar"))
    if manager is None or ask is None or compile_one is None or hasattr(manager, "headway_reports_compilations"):
        return

    @functools.wraps(ask)
    def grammar_init(self: Any, request: Any) -> Any:
        found = ask(self, request)  # a request that fails here has nothing to compile
        if getattr(request, "structured_output_request", None) is not None:
            compilations.asked()
        return found

    @functools.wraps(compile_one)
    def create_grammar(self: Any, request: Any) -> Any:
        with compilations.running():
            return compile_one(self, request)

    manager.headway_reports_compilations = True
    manager.grammar_init, manager._create_grammar = grammar_init, create_grammar


def _reported(work: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(work)
    def reported(self: Any, *arguments: Any, **options: Any) -> Any:
        reporter = _reporter_of(self)
        if reporter is None:
            return work(self, *arguments, **options)
        with reporter.at_work():
            return work(self, *arguments, **options)

    return reported


def _reporter_of(core: Any) -> Reporter | None:
    """The reporter of one EngineCore, made when it first works; None where the file is gone."""
    if _REPORTER not in core.__dict__:
        core.__dict__[_REPORTER] = _reporter(getattr(core, "engine_index", 0))
    reporter: Reporter | None = core.__dict__[_REPORTER]
    return reporter


def _reporter(index: int) -> Reporter | None:
    try:
        reporter = Reporter(Path(os.environ[VARIABLE]), index)
    except (OSError, ValueError) as error:
        log.warning("EngineCore cannot report its progress, so a slow step counts as a hang: %s", error)
        return None
    reporter.start(cpu_time=on_a_cpu())
    return reporter


def on_a_cpu() -> bool:
    """Whether vLLM runs on its CPU backend here."""
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


class Reporter:
    """The writing side, in EngineCore's process. ``index`` is its place among the engines of one server."""

    def __init__(self, path: Path, index: int) -> None:
        with path.open("r+b") as file:
            mapped = mmap.mmap(file.fileno(), REPORTS_BYTES)
        first = index % _MAX_ENGINES * _FIELDS
        self._fields = memoryview(mapped).cast("Q")[first : first + _FIELDS]
        self.steps = StepFigures()
        for field in (_WORKS, _STOPPED, _CPU_MS, _COMPILING_MS, _HELD_MS):
            self._fields[field] = 0
        self._report_steps()
        self._fields[_PID] = os.getpid()
        self._family: list[psutil.Process] = []
        self._census_due = 0
        self._seen_works = 0

    def start(self, *, cpu_time: bool) -> None:
        """Count, and inspect the workers, in a separate thread."""
        threading.Thread(target=self._run, args=(cpu_time,), name="headway-progress", daemon=True).start()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Mark a block in which a step or a call runs."""
        fields = self._fields
        works = fields[_WORKS] = (fields[_WORKS] + 1) | 1  # odd, also inside another one
        try:
            yield
        finally:
            fields[_WORKS] = works + 1

    def beat(self, *, cpu_time: bool) -> None:
        """Count, and inspect the processes below."""
        fields = self._fields
        fields[_BEATS] += 1
        slow = fields[_WORKS] % 2 == 1 and fields[_WORKS] == self._seen_works
        self._seen_works = fields[_WORKS]
        fields[_COMPILING_MS] = int(1000 * _COMPILATIONS.longest_s())
        fields[_HELD_MS] = int(1000 * _COMPILATIONS.held_s())
        self._report_steps()
        self._look(slow=slow, cpu_time=cpu_time)

    def _report_steps(self) -> None:
        for place, value in enumerate(packed(self.steps), _STEP_FIGURES.start):
            self._fields[place] = value

    def _look(self, *, slow: bool, cpu_time: bool) -> None:
        """List the processes anew only in a slow step, which may start compilers: listing costs the most."""
        self._census_due -= 1
        if self._census_due <= 0 or (slow and self._census_due % 2 == 0):
            self._census_due = _CENSUS_BEATS
            with suppress(psutil.Error, OSError):  # a process that may not be read; no file left
                self._family = psutil.Process().children(recursive=True)
        stopped, used_s = 0, 0.0
        for process in self._family:
            with suppress(psutil.Error):
                stopped += process.status() in _STOPPED_STATES
                used_s += sum(process.cpu_times()[:4])
        self._fields[_STOPPED] = stopped
        if cpu_time:
            own_s = 0.0 if self._family else time.process_time() - time.thread_time()
            self._fields[_CPU_MS] = 1 + int(1000 * (used_s + own_s))

    def _run(self, cpu_time: bool) -> None:
        while True:
            self.beat(cpu_time=cpu_time)
            time.sleep(_BEAT_S)


class ProgressReader:
    """The reading side, in the API server."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._mapped = mmap.mmap(file.fileno(), REPORTS_BYTES, access=mmap.ACCESS_READ)

    @classmethod
    def from_environment(cls, engine: str = "") -> ProgressReader | None:
        """The reader of an engine; None where there is no such file."""
        try:
            return cls(progress_file(engine))
        except (KeyError, OSError, ValueError):
            return None

    def steps(self) -> StepFigures | None:
        """The figures of the step policy, of all engines together; None before the first plan."""
        found = [unpacked(slot[_STEP_FIGURES]) for slot in self._slots()]
        total = sum((figures for figures in found if figures.steps), StepFigures())
        return total if total.steps else None

    def _slots(self) -> Iterator[memoryview]:
        """The reports of the engines that have begun to report."""
        fields = memoryview(self._mapped).cast("Q")
        begun = (first for first in range(0, len(fields), _FIELDS) if fields[first + _PID])
        return (fields[first : first + _FIELDS] for first in begun)

    def read(self) -> tuple[Progress, ...]:
        """A report of each engine that has begun to report."""
        return tuple(
            Progress(
                engine=slot[_PID],
                beats=slot[_BEATS],
                works=slot[_WORKS],
                stopped=slot[_STOPPED],
                cpu_s=slot[_CPU_MS] / 1000 if slot[_CPU_MS] else None,
                compiling_s=slot[_COMPILING_MS] / 1000,
                compilations_held_s=slot[_HELD_MS] / 1000,
            )
            for slot in self._slots()
        )
