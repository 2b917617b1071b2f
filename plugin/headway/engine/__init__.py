"""The port to an engine: what Headway needs of it, its life, the pending queries, and a fake for tests.

vLLM's own side of the port is ``headway.vllm_adapter``.
"""

from headway.engine.life import FOLLOWS, GONE, EngineLife
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
    "FOLLOWS",
    "GONE",
    "Answer",
    "Check",
    "Confirmation",
    "Ended",
    "Engine",
    "EngineAdapter",
    "EngineLife",
    "EngineSettings",
    "Invalid",
    "PendingQueries",
    "PlainAdapter",
    "StepListener",
    "prompt_bytes",
    "prompt_tokens",
]
