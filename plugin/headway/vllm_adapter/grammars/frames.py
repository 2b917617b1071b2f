"""What the API server and the process that compiles say to each other: pickled objects, each behind its length.

Both ends are ours, and the pipe is the process's own standard input and output.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

#: Of processor time, that a grammar may take for each token on the mean.
MOST_MEAN_S = 0.004
_LENGTH_BYTES = 4


class Verdict(IntEnum):
    """What came of a compilation. An invalid grammar is the engine's to refuse, in its own words."""

    FITS = 1
    INVALID = 2
    TOO_LARGE = 3
    TOO_SLOW = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """What one compilation may use: seconds of processor time, seconds in all, and bytes of memory."""

    processor_s: int = 2
    wall_s: float = 20.0
    memory_bytes: int = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Start:
    """The first frame: the engine's configuration, and the limits."""

    vllm_config: Any
    limits: Limits


@dataclass(frozen=True, slots=True)
class Order:
    """Compile this, the fields of vLLM's ``StructuredOutputsParams``; without any, end the compilation."""

    number: int
    fields: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict of an order; number 0 says that the process is ready."""

    number: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the process cannot compile anything: the last frame."""

    why: str


def packed(value: Start | Order | Report | Failure) -> bytes:
    """One frame."""
    content = pickle.dumps(value)
    return len(content).to_bytes(_LENGTH_BYTES, "big") + content


class Frames:
    """Takes bytes as they come, and gives whole frames."""

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
