"""The ring of steps: the last steps of EngineCore as it made them, for the process with the queue.

vLLM sends the figures of a step to one of several API servers, and its front end in Rust loads no plugin. The queue
before them would know steps by the tokens that pass through it: several in one report, prompts by their estimated
length, and nothing of a step without a streamed token. A single API server is told of each step, but of a prompt that
takes several of them with the last one alone. So EngineCore writes each step into a ring behind the page of limits
(``limits_page``), one for each rank.

A single process writes and nothing is locked. A record has the number of its step and a checksum: a record that is
being written, or was left in the middle by an engine that died, fails it and is read again later. An engine that is
started in place of another one goes on with its numbers. A reader that was too slow goes on with the newer half of the
ring.
"""

from __future__ import annotations

import logging
import mmap
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from headway.vllm_adapter.process.progress import FILE_BYTES, RING_BYTES, progress_file, ring_start
from headway.vllm_adapter.rank_loads import RankLoads
from headway_policies import Load
from headway_policies.limits import RankLoad

log = logging.getLogger(__name__)

_NUMBER: Final = struct.Struct("<Q")
_FIELDS: Final = struct.Struct("<Q2d7I")
_RECORD: Final = struct.Struct(f"<{_FIELDS.size}sI")
_RECORD_BYTES: Final = 64
RING_STEPS: Final = RING_BYTES // _RECORD_BYTES


class EngineStep(NamedTuple):
    """A step of a rank, and its load after it.

    ``step_s`` is the time since the token before of the sequences that had one; 0 where none had. ``prompt_tokens``
    were computed, those of a prompt that takes several steps in each of them. ``sequences`` were in the step.
    """

    step_s: float
    kv_usage_ratio: float
    running: int
    waiting: int
    deferred: int
    prompt_tokens: int
    preemptions: int
    first_tokens: int
    sequences: int


_CLOSED: Final = EngineStep(-1.0, 0.0, 0, 0, 0, 0, 0, 0, 0)  # the last record of a writer that has given up


def _ring(path: Path, rank: int) -> memoryview:
    """The ring of a rank. Raises OSError or ValueError where the file is gone, or has none."""
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), FILE_BYTES)
    start = ring_start(rank)
    return memoryview(mapped)[start : start + RING_BYTES]


def _read(ring: memoryview, place: int, least: int = 0) -> tuple[int, EngineStep] | None:
    """The number and the step of a record; None where it is not whole, or older than the ``least`` number."""
    at = place % RING_STEPS * _RECORD_BYTES
    if _NUMBER.unpack_from(ring, at)[0] < least:
        return None
    fields, checksum = _RECORD.unpack_from(ring, at)
    if zlib.crc32(fields) != checksum:
        return None
    number, *step = _FIELDS.unpack(fields)
    return number, EngineStep(*step)


class StepRing:
    """The writing side, in the process of one rank. Raises OSError or ValueError where there is no ring."""

    def __init__(self, path: Path, rank: int) -> None:
        self._ring = _ring(path, rank)
        written = (_read(self._ring, place) for place in range(RING_STEPS))
        self._number = max((record[0] for record in written if record is not None), default=0)

    def write(self, step: EngineStep) -> None:
        """Write the next step over the oldest one."""
        self._number = number = self._number + 1
        fields, place = _FIELDS.pack(number, *step), number % RING_STEPS * _RECORD_BYTES
        self._ring[place : place + _RECORD.size] = _RECORD.pack(fields, zlib.crc32(fields))

    def close(self) -> None:
        """Let the reader know that no more steps are written."""
        self.write(_CLOSED)


class StepRingReader:
    """The reading side, for all ranks of one engine. ``written``: whether each of them writes down its steps."""

    def __init__(self, path: Path, ranks: int, loads: RankLoads | None = None) -> None:
        self._rings = [_ring(path, rank) for rank in range(ranks)]
        self._next = [1] * ranks
        self.written = [False] * ranks
        self._loads = RankLoads() if loads is None else loads

    @classmethod
    def from_environment(cls, ranks: int, loads: RankLoads | None = None, engine: str = "") -> StepRingReader | None:
        """The rings of an engine; None where there is no such file."""
        try:
            return cls(progress_file(engine), ranks, loads)
        except (KeyError, OSError, ValueError) as error:
            log.warning("the engine's steps cannot be read, and are counted by its answers: %s", error)
            return None

    def read(self) -> Sequence[tuple[Load, int]]:
        """The steps of all ranks since the last call, each with its number of sequences: at most what the rings hold.

        The load is that of all ranks, the times and tokens those of the one step.
        """
        return [found for rank in range(len(self._rings)) for found in self.read_rank(rank)]

    def forget(self) -> None:
        """Drop what is left of ranks that have ended; nothing is expected of the next ones until each writes a step."""
        self.read()
        self.written = [False] * len(self._rings)

    def read_rank(self, rank: int, known: Callable[[], dict[str, Any]] = dict) -> list[tuple[Load, int]]:
        """The steps of one rank since the last call; ``known`` returns what else is known of each, last one first."""
        ring, expected, steps = self._rings[rank], self._next[rank], list[EngineStep]()
        while len(steps) < RING_STEPS and (record := _read(ring, expected, expected)) is not None:
            number, step = record
            if number > expected:  # overwritten, and the oldest of those that are left are about to be
                expected = number - RING_STEPS // 2
                continue
            expected += 1
            self.written[rank] = step != _CLOSED
            if step != _CLOSED:
                steps.append(step)
        self._next[rank] = expected
        facts = [known() for _ in steps]
        return [(self._load(rank, step, facts.pop()), step.sequences) for step in steps]

    def _load(self, rank: int, step: EngineStep, known: dict[str, Any]) -> Load:
        own = RankLoad(step.running, step.waiting, step.deferred, step.kv_usage_ratio)
        facts = self._loads.add(rank, own) | {"first_tokens": step.first_tokens} | known
        return Load(
            inter_token_s=step.step_s or None, prefill_tokens=step.prompt_tokens, preemptions=step.preemptions, **facts
        )
