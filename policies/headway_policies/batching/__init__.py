"""Batching strategies: static, dynamic and continuous batches, their window, and bins of similar length.

They decide when a batch is dispatched; the queue decides which requests are in it.
"""

from headway_policies.batching.length_bins import LengthBins
from headway_policies.batching.strategy import Batching, Strategy, make_strategy
from headway_policies.batching.window import Gathered, Window, WindowReason, make_window

__all__ = [
    "Batching",
    "Gathered",
    "LengthBins",
    "Strategy",
    "Window",
    "WindowReason",
    "make_strategy",
    "make_window",
]
