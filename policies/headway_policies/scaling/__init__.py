"""Scaling: the desired number of instances, for the system that starts and stops them."""

from headway_policies.scaling.budget import DayBudget
from headway_policies.scaling.desired import DesiredInstances
from headway_policies.scaling.history import ArrivalHistory
from headway_policies.scaling.need import Need, own_need
from headway_policies.scaling.settings import Scaling
from headway_policies.scaling.signals import ClassQueue, Desired, ScalingSignals, Why

__all__ = [
    "ArrivalHistory",
    "ClassQueue",
    "DayBudget",
    "Desired",
    "DesiredInstances",
    "Need",
    "Scaling",
    "ScalingSignals",
    "Why",
    "own_need",
]
