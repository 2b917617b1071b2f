"""The ring of steps: the last steps of EngineCore, for a process that gets no statistics from it.

vLLM sends the figures of a step to one of several API servers, and its front end in Rust loads no plugin. The queue
before them would know steps by the tokens that pass through it: several in one report, prompts by their estimated
length, and nothing of a step without a streamed token. So EngineCore writes each step into a ring behind the page of
limits (``limits_page``), one for each rank.

One process writes and nothing is locked. A record has the number of its step and a checksum: one that is being written,
or was left in the middle by an engine that died, fails it and is read again later. An engine that is started in place
of another one goes on with its numbers. A reader that was too slow goes on with the newer half of the ring.
"""

from __future__ import annotations

import logging
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headway.vllm_adapter.process.progress import FILE_BYTES, RING_BYTES, VARIABLE, ring_start
from headway.vllm_adapter.rank_loads import RankLoad, RankLoads
from headway_policies import Load

log = logging.getLogger(__name__)

_FIELDS: Final = struct.Struct("<Q2d7I")
_RECORD: Final = struct.Struct(f"<{_FIELDS.size}sI")
_RECORD_BYTES: Final = 64
RING_STEPS: Final = RING_BYTES // _RECORD_BYTES


class EngineStep(NamedTuple):
    """One step of a rank, and its load after it.

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


def _ring(path: Path, rank: int) -> memoryview:
    """The ring of a rank. Raises OSError or ValueError where the file is gone, or has none."""
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), FILE_BYTES)
    start = ring_start(rank)
    return memoryview(mapped)[start : start + RING_BYTES]


def _read(ring: memoryview, place: int) -> tuple[int, EngineStep] | None:
    """The number and the step of a record; None where it is not whole."""
    fields, checksum = _RECORD.unpack_from(ring, place % RING_STEPS * _RECORD_BYTES)
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


class StepRingReader:
    """The reading side, for all ranks of one engine."""

    def __init__(self, path: Path, ranks: int) -> None:
        self._rings = [_ring(path, rank) for rank in range(ranks)]
        self._next = [1] * ranks
        self._loads = RankLoads()

    @classmethod
    def from_environment(cls, ranks: int) -> StepRingReader | None:
        """The rings of the server's engine; None where there is no such file."""
        try:
            return cls(Path(os.environ[VARIABLE]), ranks)
        except (KeyError, OSError, ValueError) as error:
            log.warning("the steps of the engine are known by its streams alone: %s", error)
            return None

    def read(self) -> Sequence[tuple[Load, int]]:
        """The steps since the last call, each with its number of sequences: at most those that the rings hold.

        The load is that of all ranks, the times and tokens those of the one step.
        """
        found = []
        for rank in range(len(self._rings)):
            for step in self._steps(rank):
                own = RankLoad(step.running, step.waiting, step.deferred, step.kv_usage_ratio)
                total = self._loads.add(rank, own)
                load = Load(
                    running=total.running,
                    waiting=total.waiting,
                    kv_usage_ratio=total.kv_usage_ratio,
                    inter_token_s=step.step_s or None,
                    prefill_tokens=step.prompt_tokens,
                    preemptions=step.preemptions,
                    first_tokens=step.first_tokens,
                    deferred=total.deferred,
                )
                found.append((load, step.sequences))
        return found

    def _steps(self, rank: int) -> Iterator[EngineStep]:
        """The new steps of one rank."""
        ring, most = self._rings[rank], RING_STEPS
        while most and (record := _read(ring, expected := self._next[rank])) is not None and record[0] >= expected:
            number, step = record
            if number > expected:  # overwritten, and the oldest of those that are left are about to be
                self._next[rank] = number - RING_STEPS // 2
                continue
            self._next[rank] = number + 1
            most -= 1
            yield step
