"""Sources of the requests of a warm-up and of keep-warm.

An engine adapter has a source with requests of every stage (``headway.vllm_adapter.warmup_requests``); a program with
an engine of its own gives a function that starts a request like those it serves.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

from headway_policies.engine import Stage, Warmup

#: Starts one request under the id it is given, past the gate: ``lambda request_id: engine.generate(..., request_id)``.
StartRequest = Callable[[str], AsyncGenerator[Any, None]]


def made_up(serial: int, length_tokens: int, first: int, number: int) -> list[int]:
    """A prompt of the ``number`` tokens from ``first`` on, whose beginning differs from those of nearby serial numbers.

    A hit in the prefix cache would not warm an engine.
    """
    return [first + (serial * 7919 + position * 104_729) % number for position in range(length_tokens)]


class Source(Protocol):
    """A source of the requests of a warm-up."""

    def ask(self, stage: Stage, config: Warmup, index: int, request_id: str) -> AsyncGenerator[Any, None]:
        """Start one request of this stage; ``index`` is its place among those that run at once."""
        ...

    def short_request(self, request_id: str) -> AsyncGenerator[Any, None]:
        """Start one short request under this id."""
        ...

    def refused(self, error: Exception) -> bool:
        """Whether the error is a healthy engine's refusal of an unsupported request."""
        ...


class StageNotSupportedError(Exception):
    """A single function makes plain requests only."""


class OneRequest:
    """A source that makes every request by one function; stages that need more than plain requests are refused."""

    def __init__(self, start: StartRequest) -> None:
        self._start = start

    def ask(self, stage: Stage, config: Warmup, index: int, request_id: str) -> AsyncGenerator[Any, None]:
        """Start one request. Raises StageNotSupportedError for a stage that needs more than plain requests."""
        if stage in (Stage.LOGPROBS, Stage.JSON_SCHEMA):
            raise StageNotSupportedError(f"{stage}: the given function makes plain requests only")
        return self._start(request_id)

    def short_request(self, request_id: str) -> AsyncGenerator[Any, None]:
        """Start one request under this id."""
        return self._start(request_id)

    def refused(self, error: Exception) -> bool:
        """Whether the error is that of a stage which the function cannot make."""
        return isinstance(error, StageNotSupportedError)
