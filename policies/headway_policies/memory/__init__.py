"""Memory rules: when seats are capped, caches are cleared, the engine is recycled and Python's collector runs.

They read bytes and ratios, and return actions.
"""

from headway_policies.memory.gc_policy import full_collection_due
from headway_policies.memory.policy import CapSeats, Clear, MemoryPolicy, MemoryReading, Recycle, Remedy
from headway_policies.memory.settings import Cache, Memory

__all__ = [
    "Cache",
    "CapSeats",
    "Clear",
    "Memory",
    "MemoryPolicy",
    "MemoryReading",
    "Recycle",
    "Remedy",
    "full_collection_due",
]
