"""The operator's demands on every request, from the server's environment.

Each rule has a variable:

    HEADWAY_MAX_...              the caps of one request (``request_caps``)
    HEADWAY_CLIENT_PRIORITY      drop (the default) or refuse: what happens to engine priorities that clients send
    HEADWAY_VALIDATOR            a function that checks requests (``validator``)
    HEADWAY_CHECK_RESULT         a function that checks whole JSON answers
    HEADWAY_VALIDATOR_TIMEOUT_S  how long a call of either may take
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from headway.errors import HeadwayError
from headway.http.inference.request_caps import USUAL_CAPS, caps_from_environment
from headway.http.inference.validator import ResultCheck, Validator, load_function
from headway.variables import seconds
from headway_policies.entitlement import RequestCaps

_USUAL_TIMEOUT_S = 1.0
_PRIORITIES = {"drop": False, "refuse": True}


@dataclass(frozen=True, slots=True)
class RequestRules:
    """The rules in force. ``caps`` hold for every tenant, ``refuse_priority`` for every client but a listed proxy."""

    caps: RequestCaps = USUAL_CAPS
    refuse_priority: bool = False
    validator: Validator | None = None
    result_check: ResultCheck | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> RequestRules:
        """Read the environment and import what it names. Raises HeadwayError in one line that names the variable."""
        found = os.environ if environment is None else environment
        priority = found.get("HEADWAY_CLIENT_PRIORITY") or "drop"
        if priority not in _PRIORITIES:
            raise HeadwayError(f"HEADWAY_CLIENT_PRIORITY: drop or refuse is needed, not {priority[:40]!r}")
        timeout_s = seconds(found, "HEADWAY_VALIDATOR_TIMEOUT_S", _USUAL_TIMEOUT_S)
        checks_requests, checks_results = (
            load_function(variable, found[variable], timeout_s) if found.get(variable) else None
            for variable in ("HEADWAY_VALIDATOR", "HEADWAY_CHECK_RESULT")
        )
        return cls(
            caps=caps_from_environment(found),
            refuse_priority=_PRIORITIES[priority],
            validator=None if checks_requests is None else Validator(checks_requests),
            result_check=None if checks_results is None else ResultCheck(checks_results),
        )
