"""Facts of a server, and whether a diagnosis of them is favourable."""

from __future__ import annotations

import math
from dataclasses import replace

from headway_policies.diagnosis import (
    ClassFacts,
    Diagnosis,
    Facts,
    Severity,
)
from headway_policies.engine import EngineState

INF, NAN = math.inf, math.nan
JUST_ABOVE = math.nextafter(0.01, 1)
JUST_BELOW = math.nextafter(0.01, 0)

#: What a sentence says only of a server that does well.
FAVOURABLE = ("below capacity", "without delay", "idle:")

NORMAL = ClassFacts(
    "normal",
    ttft_p95_s=0.1,
    inter_token_p95_s=0.03,
    error_share=0.0,
    ttft_slo_s=2.0,
    first_token_timeout_s=60.0,
    inter_token_slo_s=0.075,
)
WELL = Facts(
    engine=EngineState.UP,
    strategy="continuous",
    limit_reason="fixed",
    seats_taken=5,
    limit=32,
    ceiling=64,
    queued=0,
    kv_ratio=0.2,
    error_share=0.0,
    failed_share=0.0,
    invalid_share=0.0,
    ttft_p95_s=0.12,
    classes=(NORMAL,),
)
FULL = replace(WELL, seats_taken=32, queued=41, oldest_wait_s=3.2)
LATE = (replace(NORMAL, ttft_p95_s=46.0),)
SLOW = (replace(NORMAL, inter_token_p95_s=0.1),)


def is_favourable(found: Diagnosis) -> bool:
    """Whether it finds the server well, by its severity or by its words."""
    return found.severity is Severity.OK or any(words in found.sentence.lower() for words in FAVOURABLE)
