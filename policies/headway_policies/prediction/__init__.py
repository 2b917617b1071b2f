"""Online estimators: output lengths, waiting times, rates, a linear fit, and what the engine's prefix cache holds.

They learn from requests; no part of a prompt enters them.
"""

from headway_policies.prediction.decaying_rate import DecayingRate, share_left
from headway_policies.prediction.demand import Demand
from headway_policies.prediction.estimators import Accuracy, LengthEstimate, WaitEstimate
from headway_policies.prediction.linear_fit import LinearFit
from headway_policies.prediction.pace import PaceSpread
from headway_policies.prediction.prefix_cache import PrefixCache
from headway_policies.prediction.scale import scale_ratio
from headway_policies.prediction.size_stats import SizeStats

__all__ = [
    "Accuracy",
    "DecayingRate",
    "Demand",
    "LengthEstimate",
    "LinearFit",
    "PaceSpread",
    "PrefixCache",
    "SizeStats",
    "WaitEstimate",
    "scale_ratio",
    "share_left",
]
