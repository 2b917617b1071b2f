"""The messages between the API server and the process that compiles: pickled objects, each behind its length.

Both ends are Headway's, and the pipe is the process's own standard input and output.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

#: The processor time that a grammar may take for each token, on the mean.
MOST_MEAN_S = 0.004
_LENGTH_BYTES = 4


class Verdict(IntEnum):
    """The result of a compilation. An invalid grammar is the engine's to refuse, in its own words.

    ``OVERDUE``: the processors were busy with other work, so the grammar had too little of its time.
    """

    FITS = 1
    INVALID = 2
    TOO_LARGE = 3
    TOO_SLOW = 4
    OVERDUE = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one compilation: seconds of processor time, seconds in all, and bytes of memory."""

    processor_s: int = 2
    wall_s: float = 20.0
    memory_bytes: int = 512 * 1024 * 1024

    @classmethod
    def of_processor(cls, processor_s: int) -> Limits:
        """The limits with so much processor time, and ten times as long in all: other work comes first."""
        return cls(processor_s, wall_s=10.0 * processor_s)


@dataclass(frozen=True, slots=True)
class Start:
    """The first frame: the engine's configuration, and the limits."""

    vllm_config: Any
    limits: Limits


@dataclass(frozen=True, slots=True)
class Order:
    """The order to compile these fields of vLLM's ``StructuredOutputsParams``; without any, to end the compilation."""

    number: int
    fields: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict of an order; number 0 says that the process is ready."""

    number: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Failure:
    """The last frame: the reason why the process cannot compile anything."""

    why: str


def packed(value: Start | Order | Report | Failure) -> bytes:
    """The bytes of one frame."""
    content = pickle.dumps(value)
    return len(content).to_bytes(_LENGTH_BYTES, "big") + content


class Frames:
    """A reader of frames: takes bytes as they come, and gives whole frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """The frames that are whole now."""
        self._held += data
        while len(self._held) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self._held[:_LENGTH_BYTES], "big")
            if len(self._held) < end:
                return
            content = bytes(self._held[_LENGTH_BYTES:end])
            del self._held[:end]
            yield pickle.loads(content)  # noqa: S301 - from our own process
