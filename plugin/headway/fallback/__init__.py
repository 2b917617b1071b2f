"""The fallback ladder at work: the controller that moves it, and the client of another model.

The rungs, triggers and the circuit breaker are policies; this part reads the signals and carries them out.
"""

from headway.fallback.client import MAX_REQUEST_BYTES, FallbackClient, Hop
from headway.fallback.controller import FallbackController
from headway.fallback.settings import FallbackSettings

__all__ = [
    "MAX_REQUEST_BYTES",
    "FallbackClient",
    "FallbackController",
    "FallbackSettings",
    "Hop",
]
