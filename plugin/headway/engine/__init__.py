"""The port to an engine: what Headway needs of it, the pending queries, and a fake for tests.

vLLM's own side of the port is ``headway.vllm_adapter``.
"""

from headway.engine.pending_queries import Confirmation, PendingQueries
from headway.engine.port import (
    Answer,
    Check,
    Ended,
    Engine,
    EngineAdapter,
    EngineSettings,
    Invalid,
    PlainAdapter,
    StepListener,
    prompt_bytes,
    prompt_tokens,
)

__all__ = [
    "Answer",
    "Check",
    "Confirmation",
    "Ended",
    "Engine",
    "EngineAdapter",
    "EngineSettings",
    "Invalid",
    "PendingQueries",
    "PlainAdapter",
    "StepListener",
    "prompt_bytes",
    "prompt_tokens",
]
