"""Contents of ``/metrics`` over time for ended requests: as a real ledger counts them, and with arbitrary errors.

A history is one dictionary a scrape, from series to value, as ``headway_dashboard.sources.exposition`` reads them.
"""

from __future__ import annotations

from random import Random

from headway_policies import Outcome, Reason
from headway_policies.desk.books.ledger import ClassLedger
from headway_policies.request.outcome import LEFT

Key = tuple[str, tuple[tuple[str, str], ...]]
Scrape = dict[Key, float]

REFUSALS, OUTCOMES = "headway_refusals_total", "headway_outcomes_total"
#: Names that no enum of this version has.
UNKNOWN_REASON, UNKNOWN_OUTCOME = "sun_spots", "teleported"


def reason_key(class_name: str, reason: str) -> Key:
    """The series that counts a reason."""
    return REFUSALS, (("class", class_name), ("reason", reason))


def outcome_key(class_name: str, outcome: str) -> Key:
    """The series that counts an outcome."""
    return OUTCOMES, (("class", class_name), ("outcome", outcome))


def ledger_history(random: Random, scrapes: int, class_name: str = "normal") -> list[Scrape]:
    """Every end that a desk can report, booked by its own ledger, with every label at every scrape."""
    ledger, found = ClassLedger(), []
    left = sorted({outcome for pair in LEFT.values() for outcome in pair})
    for _ in range(scrapes):
        for _ in range(random.randrange(8)):
            ledger.arrived += 1
            ledger.queued += 1
            if random.random() < 0.5:
                ledger.refused(random.choice(list(Reason)), waiting=True)
            else:
                ledger.ended(random.choice(left), waiting=True)
        assert ledger.balanced
        found.append(
            {reason_key(class_name, one): float(ledger.refusals[one]) for one in Reason}
            | {outcome_key(class_name, one): float(ledger.outcomes[one]) for one in Outcome}
        )
    return found


def broken_history(random: Random, scrapes: int, class_name: str = "normal") -> list[Scrape]:
    """Counters that grow, restart at any value and vanish, each by itself, among them unknown names."""
    keys = [
        *(reason_key(class_name, one) for one in (*Reason, UNKNOWN_REASON)),
        *(outcome_key(class_name, one) for one in (*Outcome, UNKNOWN_OUTCOME)),
    ]
    kept = [key for key in keys if random.random() < 0.6]
    values = {key: float(random.randrange(50)) for key in kept}
    found: list[Scrape] = []
    for _ in range(scrapes):
        for key in kept:
            restarts = random.random() < 0.05
            values[key] = float(random.randrange(5)) if restarts else values[key] + random.choice((0, 0, 1, 7))
        found.append({key: value for key, value in values.items() if random.random() < 0.9})
    return found
