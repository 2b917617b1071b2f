"""Diagnosis: what limits a server now, how bad that is, and what would help.

bottleneck   the closed lists: what limits, and the severities
facts        the figures that a diagnosis rests on
symptoms     what is wrong, whatever the cause
rules        what limits, and how bad it is
statement    the same in words
remedies     what would help, with its cost
failures     which ends of a request are failures, and the words for their causes
diagnosis    the whole
"""

from headway_policies.diagnosis.bottleneck import Bottleneck, Severity
from headway_policies.diagnosis.diagnosis import Diagnosis, diagnose, restated
from headway_policies.diagnosis.facts import NO_INSTANCE, ClassFacts, Facts, Forecasted
from headway_policies.diagnosis.failures import (
    BY_REASON,
    FOR_LOAD,
    IN_ENGINE,
    NOT_FAILED,
    WHILE_RUNNING,
    WORDS,
    refused_for_load,
    words,
)
from headway_policies.diagnosis.remedies import Remedy
from headway_policies.diagnosis.symptoms import MAX_ERROR_SHARE, lowered_words, main_causes, symptoms

__all__ = [
    "BY_REASON",
    "FOR_LOAD",
    "IN_ENGINE",
    "MAX_ERROR_SHARE",
    "NOT_FAILED",
    "NO_INSTANCE",
    "WHILE_RUNNING",
    "WORDS",
    "Bottleneck",
    "ClassFacts",
    "Diagnosis",
    "Facts",
    "Forecasted",
    "Remedy",
    "Severity",
    "diagnose",
    "lowered_words",
    "main_causes",
    "refused_for_load",
    "restated",
    "symptoms",
    "words",
]
