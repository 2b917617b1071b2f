"""The figures of the step policy as whole numbers of the file that EngineCore shares with the API server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from headway_policies.step import StepFigures

_NAMES = tuple(field.name for field in fields(StepFigures))
#: Times are in microseconds, all else as it is.
STEP_UNITS = tuple(1_000_000 if name.endswith("_s") else 1 for name in _NAMES)


def packed(figures: StepFigures) -> Iterator[int]:
    """A number for each figure, in the order of their names in the class."""
    return (int(unit * getattr(figures, name)) for name, unit in zip(_NAMES, STEP_UNITS, strict=True))


def unpacked(numbers: Iterable[int]) -> StepFigures:
    """The figures that these numbers stand for."""
    figures = StepFigures()
    for name, number, unit in zip(_NAMES, numbers, STEP_UNITS, strict=True):
        setattr(figures, name, number if unit == 1 else number / unit)
    return figures
