"""Batching strategies: static, dynamic and continuous batches, their window, and bins of similar length.

They decide when a batch is dispatched; the queue decides which requests are in it.
"""

from headway_policies.batching.length_bins import LengthBins
from headway_policies.batching.safe_window import SafeWindow, make_window
from headway_policies.batching.strategy import Batching, Strategy, make_strategy
from headway_policies.batching.window import Gathered, ReportingWindow, Window, WindowReason

__all__ = [
    "Batching",
    "Gathered",
    "LengthBins",
    "ReportingWindow",
    "SafeWindow",
    "Strategy",
    "Window",
    "WindowReason",
    "make_strategy",
    "make_window",
]
