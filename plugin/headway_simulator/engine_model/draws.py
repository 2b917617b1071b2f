"""Random numbers by index: the same seed, stream and index give the same number, in whatever order they are drawn.

With a stateful generator the number of a step would depend on how many were drawn before. Here a counter is mixed by
SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014).
"""

from __future__ import annotations

from statistics import NormalDist

_BITS = (1 << 64) - 1
_NORMAL = NormalDist()


def uniform(seed: int, stream: int, index: int) -> float:
    """A number above 0 and below 1."""
    mixed = _mixed(_mixed(_mixed(seed) ^ stream) ^ index)
    return ((mixed >> 12) + 0.5) / (1 << 52)


def normal(seed: int, stream: int, index: int) -> float:
    """A number of the standard normal distribution."""
    return _NORMAL.inv_cdf(uniform(seed, stream, index))


def _mixed(number: int) -> int:
    """A step of SplitMix64: 64 bits of which each depends on all bits of the number."""
    number = (number + 0x9E3779B97F4A7C15) & _BITS
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _BITS
    return number ^ (number >> 31)
