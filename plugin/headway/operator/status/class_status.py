"""The priority classes in the status: their counts, and their objectives on this engine."""

from __future__ import annotations

from collections.abc import Mapping

from headway.api import schema
from headway_policies import Desk
from headway_policies.desk import DeskReading
from headway_policies.limits import ObjectivesNow


def class_statuses(desk: Desk, reading: DeskReading, lowered: Mapping[str, int]) -> list[schema.ClassStatus]:
    """Each class that the server has seen, or that a preset has; ``lowered`` counts by the class asked for."""
    terms, preset = desk.preset.classes, desk.preset.name
    alone, prompt_tokens = desk.engine_fit.unloaded, reading.usual_prompt_tokens
    return [
        schema.ClassStatus(
            name=name,
            priority=terms[name].priority if name in terms else None,
            queued=counts.queued,
            oldest_wait_s=round(reading.oldest_wait_s[name], 3),
            queue_timeout_s=terms[name].timeouts().before_first_token_s() if name in terms else None,
            overloaded=name in reading.standing_queues,
            held_seats=reading.reserved_seats.get(name, 0),
            in_flight=counts.in_flight,
            arrived=counts.arrived,
            lowered=lowered.get(name, 0),
            outcomes={str(outcome): number for outcome, number in counts.outcomes.items()},
            objectives=objectives_status(name, ObjectivesNow.of(terms[name], alone, prompt_tokens), preset)
            if name in terms
            else None,
        )
        for name, counts in desk.ledger.classes.items()
    ]


def objectives_status(name: str, now: ObjectivesNow, preset: str) -> schema.ClassObjectives:
    """The objectives of a class of this preset."""
    found = now.found
    return schema.ClassObjectives(
        ttft_s=None if found.ttft_s is None else round(found.ttft_s, 4),
        inter_token_s=None if found.inter_token_s is None else round(found.inter_token_s, 6),
        prompt_tokens=round(now.prompt_tokens, 1),
        ttft_stated=now.ttft,
        inter_token_stated=now.inter_token,
        follows_engine=found.relative,
        kept_alone=found.kept_alone,
        words=now.words,
        missed_alone=now.missed_alone(preset, name),
    )
