"""The warm-up: requests of the server's own, before any other and while the engine is idle.

warmer             the plan of the preset, carried out and retried
keep_warm          a short request after idle time
sources            the sources of the requests of both
internal_requests  the run of a request past the gate, counted nowhere
"""

from headway.warmup.keep_warm import KeepWarm
from headway.warmup.sources import OneRequest, Source, StageNotSupportedError, StartRequest, made_up
from headway.warmup.warmer import Warmer

__all__ = ["KeepWarm", "OneRequest", "Source", "StageNotSupportedError", "StartRequest", "Warmer", "made_up"]
