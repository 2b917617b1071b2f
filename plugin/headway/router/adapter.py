"""The gateway's adapter to instances: sizes come with the request, progress with the readings."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from math import nan
from typing import Any

from headway.engine import PlainAdapter
from headway.router.forwarding.forwarded import CallParams, Piece
from headway_policies import Usage
from headway_policies.preset import LACKS, Ability, Place


class InstancesAdapter(PlainAdapter):
    """The adapter of ``InstancesEngine``."""

    def seats(self, sampling_params: CallParams) -> int:
        """The sequences of all prompts."""
        return sampling_params.n

    def usage(self, output: Piece, sequences: int) -> Usage | None:
        """The usage that the response states, or that its events add up to."""
        return output.usage

    def unstreamed(self, sampling_params: CallParams) -> bool:
        """Whether the response is no stream, but a body that comes as a whole."""
        return not sampling_params.stream

    def tokens(self, engine: Any, request_id: str) -> int | None:
        """The readings of the request's instance that showed progress."""
        progress: int | None = engine.progress_of(request_id)
        return 0 if progress is None else progress

    async def catch_up(self, engine: Any) -> None:
        """Do nothing: a call whose connection is closed has ended, and a lost instance is not waited for."""

    def first_token_delay_s(self, output: Piece) -> float | None:
        """None for a stream, whose first bytes are the first token; NaN for a whole body, or a refusal."""
        return nan if output.whole or output.status not in (None, HTTPStatus.OK) else None

    def unfinished(self, output: Piece) -> bool:
        """Whether the response was cut short, without its last piece."""
        return not output.last

    def lacks(self, engine: Any) -> frozenset[Ability]:
        """The abilities that instances of others never have; a replacement is not the adapter's to name."""
        return LACKS[Place.ROUTE] - {Ability.REPLACER}

    async def memory(self, engine: Any) -> Mapping[str, int]:
        """No components: the weights are elsewhere."""
        return {}
