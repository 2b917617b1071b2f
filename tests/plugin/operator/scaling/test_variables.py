"""The settings of a fleet: the usual ones, and one line for each that is wrong."""

from __future__ import annotations

import pytest

from headway.errors import HeadwayError
from headway.operator import scaling_from_environment
from headway_policies.scaling import Scaling


def test_without_a_variable_all_instances_may_run() -> None:
    """From one to as many as the router knows; a larger minimum raises the maximum."""
    assert scaling_from_environment({}, 5) == Scaling(minimum=1, maximum=5)
    assert scaling_from_environment({"HEADWAY_SCALE_MIN": "3"}, 2) == Scaling(minimum=3, maximum=3)


def test_each_variable_is_read() -> None:
    """And an empty one is as if it were not set."""
    environment = {
        "HEADWAY_SCALE_MIN": "2",
        "HEADWAY_SCALE_MAX": "16",
        "HEADWAY_SCALE_HOURS_A_DAY": "60.5",
        "HEADWAY_SCALE_START_S": "45",
    }
    assert scaling_from_environment(environment, 5) == Scaling(minimum=2, maximum=16, hours_a_day=60.5, start_s=45.0)
    assert scaling_from_environment(dict.fromkeys(environment, ""), 5) == Scaling(minimum=1, maximum=5)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"MIN": "0"}, "HEADWAY_SCALE_MIN: a positive whole number is needed, not '0'"),
        ({"MAX": "many"}, "HEADWAY_SCALE_MAX: a positive whole number is needed, not 'many'"),
        ({"MIN": "3", "MAX": "2"}, "HEADWAY_SCALE_MAX: at least HEADWAY_SCALE_MIN = 3 is needed, not 2"),
        ({"START_S": "-1"}, "HEADWAY_SCALE_START_S: a number of seconds above 0, at most 3600, is needed, not '-1'"),
        (
            {"HOURS_A_DAY": "47", "MIN": "2"},
            "HEADWAY_SCALE_HOURS_A_DAY: at least 48 is needed, HEADWAY_SCALE_MIN = 2 all day, not '47'",
        ),
        (
            {"HOURS_A_DAY": "nan"},
            "HEADWAY_SCALE_HOURS_A_DAY: at least 24 is needed, HEADWAY_SCALE_MIN = 1 all day, not 'nan'",
        ),
    ],
    ids=["no instance", "no number", "contradiction", "negative", "fewer hours than the minimum", "not a number"],
)
def test_a_wrong_one_is_refused_in_one_line(environment: dict[str, str], says: str) -> None:
    """The line names the variable and what is needed."""
    with pytest.raises(HeadwayError) as refused:
        scaling_from_environment({f"HEADWAY_SCALE_{name}": value for name, value in environment.items()}, 4)
    assert str(refused.value) == says
