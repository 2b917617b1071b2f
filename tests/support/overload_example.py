"""The figures of one overload, for the tests of what is said about it."""

from __future__ import annotations

from headway_tools.demo.overload.figures import ClassInOverload, Delays, OverloadFigures
from headway_tools.demo.overload.shares import ClassShare

OVERLOAD = OverloadFigures(
    length_s=10.0,
    capacity_per_s=20.0,
    classes=[
        ClassInOverload("realtime", 100, 100, 100, {"completed": 98, "failed": 2}, {}),
        ClassInOverload("batch", 200, 200, 200, {"completed": 120, "shed": 80}, {"shed": 70, "evicted": 10}),
    ],
    answered=299,
    retry_after_s=(2, 14),
    before=Delays(0.004, 0.2),
    during=Delays(0.15, None),
    rungs=["cap", "shed"],
    shares=[ClassShare("realtime", 100, 98, 97, 96, 0.45), ClassShare("batch", 200, 120, 80, 90, None)],
    without=[ClassShare("realtime", 100, 100, 60, 7, 0.45), ClassShare("batch", 200, 200, 110, 200, None)],
)
