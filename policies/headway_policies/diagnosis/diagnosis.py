"""The diagnosis of a server: what limits it now, how bad that is, on which evidence, and what would help.

*What is wrong* (symptoms) and *what limits* (rules) are answered apart. A favourable answer needs every figure that it
rests on: where one is not known, the load is stated without a judgement, and the sentence names what is missing.

Weak spot: figures of a minute say nothing of what changes within seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

from headway_policies.diagnosis.bottleneck import Bottleneck, Severity
from headway_policies.diagnosis.facts import Facts
from headway_policies.diagnosis.remedies import Remedy, remedies
from headway_policies.diagnosis.rules import KV_FULL, WORTHWHILE_GAIN, bottleneck, severity
from headway_policies.diagnosis.statement import statement
from headway_policies.diagnosis.symptoms import MAX_ERROR_SHARE, bound_s, symptoms


@dataclass(frozen=True, slots=True)
class Evidence:
    """A figure and the bound that it is compared with, None where it stands alone; ``class.figure`` for a class."""

    figure: str
    value: float
    bound: float | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The bottleneck of a server and how bad it is: the statement, what is wrong in a sentence each, the evidence, and
    the remedies with the best first.
    """

    severity: Severity
    bottleneck: Bottleneck
    statement: str
    symptoms: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    remedies: tuple[Remedy, ...] = ()

    @property
    def sentence(self) -> str:
        """The whole diagnosis in one paragraph."""
        return " ".join((*self.symptoms, self.statement))


def diagnose(facts: Facts) -> Diagnosis:
    """The diagnosis of these figures."""
    known = facts.measured()
    found = bottleneck(known)
    bad = severity(known, found)
    return Diagnosis(
        severity=bad,
        bottleneck=found,
        statement=statement(known, found),
        symptoms=() if bad is Severity.DOWN else symptoms(known),  # of a server that is down, they are of the past
        evidence=tuple(_evidence(known)),
        remedies=remedies(known, found),
    )


def restated(found: Diagnosis, facts: Facts) -> Diagnosis:
    """A diagnosis with its statement in present figures: its own ``facts``, brought up to date."""
    return replace(found, statement=statement(facts.measured(), found.bottleneck))


def _evidence(facts: Facts) -> Iterator[Evidence]:
    plain = (
        ("seats_taken", facts.seats_taken, facts.limit),
        ("queued", facts.queued, None),
        ("oldest_wait_s", facts.oldest_wait_s if facts.queued else None, None),
        ("kv_ratio", facts.kv_ratio, KV_FULL),
        ("error_share", facts.fault_share, MAX_ERROR_SHARE),
        ("doubling_gain", facts.doubling_gain, WORTHWHILE_GAIN),
    )
    for figure, value, bound in plain:
        if value is not None:
            yield Evidence(figure, value, bound)
    for row in facts.classes:
        if row.ttft_p95_s is not None:
            yield Evidence(f"{row.name}.ttft_p95_s", row.ttft_p95_s, _stated(bound_s(row)))
        if row.inter_token_p95_s is not None:
            yield Evidence(f"{row.name}.inter_token_p95_s", row.inter_token_p95_s, _stated(row.inter_token_slo_s))


def _stated(bound: float | None) -> float | None:
    return None if bound == inf else bound
