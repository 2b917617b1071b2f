"""Online estimators: output lengths, waiting times, and a linear fit.

They learn from finished requests; no part of a prompt enters them.
"""

from headway_policies.prediction.demand import Demand
from headway_policies.prediction.estimators import Accuracy, LengthPredictor, QuantileLengths, WaitEstimate
from headway_policies.prediction.linear_fit import LinearFit
from headway_policies.prediction.scale import scale_ratio
from headway_policies.prediction.size_stats import SizeStats

__all__ = [
    "Accuracy",
    "Demand",
    "LengthPredictor",
    "LinearFit",
    "QuantileLengths",
    "SizeStats",
    "WaitEstimate",
    "scale_ratio",
]
