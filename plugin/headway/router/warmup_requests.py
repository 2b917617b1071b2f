"""The requests of the warm-up of instances, by OpenAI's completions route.

An instance with Headway has warmed itself up when it says that it is ready, and an instance that has computed tokens
before is warm as well. For these the first warm-up is only its last stage, which measures the time of a request alone,
and that only while nothing else runs there. A route, a parameter or a length that the instances refuse is left out.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import Any, Final

from headway.router.engine import InstancesEngine
from headway.router.forwarding.forwarded import CallParams, Forwarded, Piece
from headway.warmup import StageNotSupportedError, made_up
from headway_policies.engine import Stage, Warmup
from headway_policies.routing import Demand

_ROUTE: Final = "/v1/completions"
_HEADERS: Final = (("content-type", "application/json"),)
_SCHEMA: Final = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_REFUSED: Final = frozenset({
    HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.NOT_IMPLEMENTED,
})  # fmt: skip
_FIRST_TOKEN, _TOKENS = 300, 600  # that any vocabulary has: tokenizers keep their special ones below, or far above
_KEEP_WARM: Final = Warmup(prompt_tokens=(4,), output_tokens=1)


class RefusedByInstanceError(Exception):
    """An instance answered a request of the warm-up with an error status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"an instance answered with {status}")
        self.status = status


class InstanceWarmupRequests:
    """A source of requests for the instances of ``engine``. Their answers are not read.

    ``only_measures`` refuses every stage but the last; at first it says whether an instance is warm.
    """

    def __init__(self, engine: InstancesEngine) -> None:
        readings = [link.reading for link in engine.pool.healthy()]
        self.only_measures = any(reading.limit is not None or reading.tokens for reading in readings)
        self._engine = engine
        self._serials = itertools.count(1)

    def ask(self, stage: Stage, config: Warmup, index: int, request_id: str) -> AsyncGenerator[Piece, None]:
        """Start one request of this stage. Raises StageNotSupportedError for a stage that they do not need."""
        if not self._engine.pool.model():
            raise StageNotSupportedError(f"{stage}: no instance has said what it serves")
        if self.only_measures and stage is not Stage.ALONE:
            raise StageNotSupportedError(f"{stage}: an instance is warm already")
        if stage is Stage.ALONE and any(link.others for link in self._engine.pool.healthy()):
            raise StageNotSupportedError(f"{stage}: requests of others run there")
        length = config.prompt_tokens[index % len(config.prompt_tokens)]
        return self._start(stage, length, config.answer_tokens(stage), request_id)

    def short_request(self, request_id: str) -> AsyncGenerator[Piece, None]:
        """Start the shortest request, to keep idle instances warm."""
        return self._start(Stage.SINGLE, _KEEP_WARM.prompt_tokens[0], _KEEP_WARM.output_tokens, request_id)

    def refused(self, error: Exception) -> bool:
        """Whether healthy instances refuse the request, or need none of it."""
        refused = isinstance(error, RefusedByInstanceError) and error.status in _REFUSED
        return refused or isinstance(error, StageNotSupportedError)

    async def _start(
        self, stage: Stage, prompt_tokens: int, output_tokens: int, request_id: str
    ) -> AsyncGenerator[Piece, None]:
        asked: dict[str, Any] = {
            "model": self._engine.pool.model(),
            "prompt": made_up(next(self._serials), prompt_tokens, _FIRST_TOKEN, _TOKENS),
            "max_tokens": output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
        }
        if stage is Stage.LOGPROBS:
            asked["logprobs"] = 1
        if stage is Stage.JSON_SCHEMA:
            asked["response_format"] = {"type": "json_schema", "json_schema": {"name": "warm_up", "schema": _SCHEMA}}
        request = Forwarded("POST", _ROUTE, _HEADERS, json.dumps(asked).encode())
        demand = Demand(prompt_tokens + output_tokens, prompt_tokens, (), 1)
        params = CallParams(1, output_tokens, stream=True, timed=True)
        async for piece in self._engine.generate(request, params, request_id, demand=demand):
            if piece.status is not None and piece.status != HTTPStatus.OK:
                raise RefusedByInstanceError(piece.status)
            yield piece
