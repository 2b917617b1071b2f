"""Do the policies of your own that a preset names keep what they must?"""

from __future__ import annotations

from collections.abc import Callable

from headway_policies.complaints import one_line
from headway_policies.conformance.limits import check_limit_policy
from headway_policies.conformance.orders import check_line, check_order
from headway_policies.named import FAILURES, cause, find_class
from headway_policies.preset import Preset

#: The suite for each setting that may hold an import path.
_SUITES: dict[str, Callable[[type], None]] = {
    "ordering.between": check_order,
    "ordering.inside": check_line,
    "limit.policy": check_limit_policy,
}


def failures(preset: Preset) -> list[str]:
    """A line for each policy that is named by import path and fails the suite of its kind."""
    return [
        f"{key}: {path}: {why}"
        for key, path in preset.named_policies().items()
        if key in _SUITES and (why := _why_not(_SUITES[key], find_class(path))) is not None
    ]


def _why_not(suite: Callable[[type], None], policy: type) -> str | None:
    try:
        suite(policy)
    except AssertionError as error:
        return one_line(str(error))
    except FAILURES as error:  # whatever somebody else's policy raises
        return f"raised {cause(error)}"
    return None
