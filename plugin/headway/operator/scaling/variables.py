"""The settings of a fleet, from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from headway.errors import HeadwayError
from headway.settings import Environment
from headway_policies.scaling import Scaling

_HOURS_OF_A_DAY = 24


def scaling_from_environment(environment: Mapping[str, str], instances: int) -> Scaling:
    """The settings for a router that knows so many ``instances``: it never asks for more, unless it is told to.

    Raises HeadwayError in one line that names the variable.
    """
    found = Environment(environment)
    minimum, hours = found.scale_min, found.scale_hours_a_day
    maximum = found.scale_max or max(instances, minimum)
    if maximum < minimum:
        raise HeadwayError(f"HEADWAY_SCALE_MAX: at least HEADWAY_SCALE_MIN = {minimum} is needed, not {maximum}")
    least = _HOURS_OF_A_DAY * minimum
    if hours is not None and not (isfinite(hours) and hours >= least):
        wanted = f"at least {least} is needed, HEADWAY_SCALE_MIN = {minimum} all day"
        raise HeadwayError(f"HEADWAY_SCALE_HOURS_A_DAY: {wanted}, not '{hours:g}'")
    return Scaling(minimum=minimum, maximum=maximum, start_s=found.scale_start_s, hours_a_day=hours)
