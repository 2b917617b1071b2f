"""The fallback: the controller that moves the fallback ladder, and the targets of the requests that it diverts.

The rungs, triggers and the circuit breaker are policies; this part reads the signals and carries out the rungs.
"""

from headway.fallback.answer import ForwardResult
from headway.fallback.client import MAX_REQUEST_BYTES, FallbackClient
from headway.fallback.controller import FallbackController
from headway.fallback.diverted_request import DivertedRequest
from headway.fallback.fixed_reply import FixedReply
from headway.fallback.other_engine import OtherEngine
from headway.fallback.other_model import OtherModel
from headway.fallback.settings import check_late_classes
from headway.fallback.target import FallbackTarget, target_from_environment

__all__ = [
    "MAX_REQUEST_BYTES",
    "DivertedRequest",
    "FallbackClient",
    "FallbackController",
    "FallbackTarget",
    "FixedReply",
    "ForwardResult",
    "OtherEngine",
    "OtherModel",
    "check_late_classes",
    "target_from_environment",
]
