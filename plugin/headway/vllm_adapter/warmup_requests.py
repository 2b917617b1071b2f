"""The requests of the warm-up, in vLLM's terms.

Their tokens are made up, no two prompts begin alike, and none holds a token of the first eighth or the upper half of
the vocabulary, where tokenizers keep their special tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from typing import Any

from headway.warmup import made_up
from headway_policies.engine import Stage, Warmup

_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["name", "count"],
    "additionalProperties": False,
}
_KEEP_WARM = Warmup(prompt_tokens=(8,), output_tokens=1)  # shorter than a block: it leaves nothing in the prefix cache


class WarmupRequests:
    """The source of an engine's warm-up requests. Their answers are not read."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._serials = itertools.count(1)

    def ask(self, stage: Stage, config: Warmup, index: int, request_id: str) -> AsyncGenerator[Any, None]:
        """Start one request of this stage. Requests that run at once take the usual lengths in turn."""
        from vllm.inputs import TokensPrompt

        model, serial = self._engine.model_config, next(self._serials)
        output_tokens = max(1, min(config.answer_tokens(stage), model.max_model_len - 2))
        room_tokens = max(1, model.max_model_len - output_tokens - 1)
        length_tokens = min(config.prompt_tokens[index % len(config.prompt_tokens)], room_tokens)
        prompt = TokensPrompt(prompt_token_ids=usual_prompt(serial, length_tokens, model.get_vocab_size()))
        stream: AsyncGenerator[Any, None] = self._engine.generate(prompt, _params(stage, output_tokens), request_id)
        return stream

    def short_request(self, request_id: str) -> AsyncGenerator[Any, None]:
        """Start the shortest request, to keep an idle engine warm."""
        return self.ask(Stage.SINGLE, _KEEP_WARM, 0, request_id)

    def refused(self, error: Exception) -> bool:
        """Whether a healthy engine refuses the request, or its release lacks the ability."""
        errors = (error, error.__cause__)
        return not self._engine.errored and any(isinstance(cause, _refusals()) for cause in errors)


def usual_prompt(serial: int, length_tokens: int, vocabulary: int) -> list[int]:
    """A made-up prompt of the usual tokens of a vocabulary of this size."""
    return made_up(serial, length_tokens, vocabulary // 8, max(1, vocabulary // 2 - vocabulary // 8))


def _params(stage: Stage, output_tokens: int) -> Any:
    """Parameters for a greedy request of full length. Raises ImportError or TypeError where a release lacks some."""
    from vllm import SamplingParams

    more: dict[str, Any] = {"ignore_eos": True}
    if stage is Stage.LOGPROBS:
        more["logprobs"] = 1
    if stage is Stage.JSON_SCHEMA:
        from vllm.sampling_params import StructuredOutputsParams

        more = {"structured_outputs": StructuredOutputsParams(json=_SCHEMA)}
    return SamplingParams(max_tokens=output_tokens, temperature=0.0, **more)


def _refusals() -> tuple[type[BaseException], ...]:
    """The errors of a request that cannot be served: vLLM's own, where this release has it, and the plain errors."""
    import vllm.exceptions as exceptions

    own = getattr(exceptions, "VLLMClientError", None)
    plain = (ValueError, TypeError, NotImplementedError, ImportError)
    return plain if own is None else (own, *plain)
