"""A request and the settings of a batcher as plain data, with the defaults of the usual hand-written batcher.

An ``InferenceRequest`` brings its own priority, time-out and size to ``Batcher.submit`` and to
``PriorityRequestQueue.enqueue``; any other item has them as arguments there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from headway_policies.request.ticket import DEFAULT_MAX_TOKENS

_BYTES_PER_TOKEN = 4  # of English text, about; the server takes the same until it has tokenised a prompt


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """A request to a language model. Its prompt and ``max_tokens`` count against the token budget.

    ``priority`` is a number, larger is more urgent, or the name of a class. ``prompt_tokens`` is estimated from the
    prompt where it is not given; ``timeout`` is in seconds from ``submit`` on. The prompt is never logged.
    """

    request_id: str
    prompt: str = field(repr=False)
    max_tokens: int = DEFAULT_MAX_TOKENS
    priority: int | str = 0
    timeout: float | None = None
    prompt_tokens: int | None = None

    @property
    def size_tokens(self) -> int:
        """The tokens of the prompt, as given or estimated; at least 1."""
        if self.prompt_tokens is not None:
            return self.prompt_tokens
        return max(1, -(-len(self.prompt.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN))


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """The settings of a batch: the arguments of ``Batcher`` of the same names, with the same defaults."""

    max_batch_size: int = 32
    max_wait_ms: float = 50
    max_total_tokens: int = 8192
    priority_classes: int = 3

    def arguments(self) -> dict[str, Any]:
        """The configuration as keyword arguments: ``Batcher(process_batch, **config.arguments())``."""
        return asdict(self)
