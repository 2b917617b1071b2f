"""Batching strategies: static, dynamic and continuous batches, their window, and bins of similar length.

They say when a batch leaves; who is in it is decided by the queue.
"""

from headway_policies.batching.length_bins import LengthBins
from headway_policies.batching.strategy import Batching, Strategy, make_strategy
from headway_policies.batching.window import Gathered, Window, make_window

__all__ = [
    "Batching",
    "Gathered",
    "LengthBins",
    "Strategy",
    "Window",
    "make_strategy",
    "make_window",
]
