"""The operator's demands on every request, from the server's environment.

Each rule has a variable:

    HEADWAY_MAX_...              the caps of one request (``request_caps``)
    HEADWAY_CLIENT_PRIORITY      drop (the default) or refuse: what happens to engine priorities that clients send
    HEADWAY_VALIDATOR            a function that checks requests (``validator``)
    HEADWAY_CHECK_RESULT         a function that checks JSON answers, and streams at their end
    HEADWAY_CHECK_RESULT_BYTES   the longest stream that it checks
    HEADWAY_VALIDATOR_TIMEOUT_S  how long a call of either may take
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway.http.inference.request_caps import USUAL_CAPS, caps_from_environment
from headway.http.inference.validator import ResultCheck, Validator, load_function
from headway.settings import Environment
from headway_policies.entitlement import RequestCaps


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
        found = Environment(environment)
        timeout_s = found.validator_timeout_s
        checks_requests, checks_results = (
            None if path is None else load_function(name, path, timeout_s)
            for name, path in (("HEADWAY_VALIDATOR", found.validator), ("HEADWAY_CHECK_RESULT", found.check_result))
        )
        return cls(
            caps=caps_from_environment(environment),
            refuse_priority=found.client_priority == "refuse",
            validator=None if checks_requests is None else Validator(checks_requests),
            result_check=None if checks_results is None else ResultCheck(checks_results, found.check_result_bytes),
        )
