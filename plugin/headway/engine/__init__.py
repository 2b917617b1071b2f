"""The port to an engine: what Headway needs of an engine, its life, the pending queries, and a fake for tests.

vLLM's own side of the port is ``headway.vllm_adapter``.
"""

from headway.engine.life import FOLLOWS, GONE, EngineLife
from headway.engine.pending_queries import Confirmation, PendingQueries
from headway.engine.port import (
    Check,
    Ended,
    Engine,
    EngineAdapter,
    EngineSettings,
    Invalid,
    PingAnswer,
    PlainAdapter,
    StepListener,
    prompt_bytes,
    prompt_tokens,
)

__all__ = [
    "FOLLOWS",
    "GONE",
    "Check",
    "Confirmation",
    "Ended",
    "Engine",
    "EngineAdapter",
    "EngineLife",
    "EngineSettings",
    "Invalid",
    "PendingQueries",
    "PingAnswer",
    "PlainAdapter",
    "StepListener",
    "prompt_bytes",
    "prompt_tokens",
]
