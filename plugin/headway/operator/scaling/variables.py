"""The settings of a fleet, from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Final

from headway.errors import HeadwayError
from headway.variables import seconds, whole_number
from headway_policies.scaling import Scaling

MINIMUM: Final = "HEADWAY_SCALE_MIN"
MAXIMUM: Final = "HEADWAY_SCALE_MAX"
HOURS: Final = "HEADWAY_SCALE_HOURS_A_DAY"
START: Final = "HEADWAY_SCALE_START_S"
_HOURS_OF_A_DAY: Final = 24


def scaling_from_environment(environment: Mapping[str, str], instances: int) -> Scaling:
    """The settings for a router that knows so many ``instances``: it never asks for more, unless it is told to.

    Raises HeadwayError in one line that names the variable.
    """
    minimum = whole_number(environment, MINIMUM, 1)
    maximum = whole_number(environment, MAXIMUM, max(instances, minimum))
    if maximum < minimum:
        raise HeadwayError(f"{MAXIMUM}: at least {MINIMUM} = {minimum} is needed, not {maximum}")
    return Scaling(
        minimum=minimum,
        maximum=maximum,
        start_s=seconds(environment, START, Scaling().start_s),
        hours_a_day=_hours(environment, minimum),
    )


def _hours(environment: Mapping[str, str], minimum: int) -> float | None:
    """The bound on the instance hours of a day; None where it is not set."""
    text = environment.get(HOURS)
    if not text:
        return None
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    least = _HOURS_OF_A_DAY * minimum
    if not (isfinite(hours) and hours >= least):
        raise HeadwayError(f"{HOURS}: at least {least} is needed, {MINIMUM} = {minimum} all day, not {text[:40]!r}")
    return hours
