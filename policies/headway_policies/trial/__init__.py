"""Trials of a preset: when a change is reverted without an operator.

figures      the results of a class of requests in an interval
condition    ``realtime.ttft_p95_s > 2 for 30 s``: its text and its comparison
trial        the conditions and the time of one trial, and its end
"""

from headway_policies.trial.condition import Condition, ConditionError
from headway_policies.trial.figures import ALL, FIGURES, Served
from headway_policies.trial.trial import NO_TRIAL, Trial, TrialEnd, TrialResult, TrialTerms, read_condition

__all__ = [
    "ALL",
    "FIGURES",
    "NO_TRIAL",
    "Condition",
    "ConditionError",
    "Served",
    "Trial",
    "TrialEnd",
    "TrialResult",
    "TrialTerms",
    "read_condition",
]
