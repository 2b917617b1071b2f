"""The fallback: the controller that moves the fallback ladder, and the client of the other model.

The rungs, triggers and the circuit breaker are policies; this part reads the signals and carries out the rungs.
"""

from headway.fallback.client import MAX_REQUEST_BYTES, FallbackClient, ForwardResult
from headway.fallback.controller import FallbackController
from headway.fallback.other_engine import OtherEngine
from headway.fallback.other_model import OtherModel
from headway.fallback.settings import FallbackSettings

__all__ = [
    "MAX_REQUEST_BYTES",
    "FallbackClient",
    "FallbackController",
    "FallbackSettings",
    "ForwardResult",
    "OtherEngine",
    "OtherModel",
]
