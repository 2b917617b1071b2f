"""The bare engine: a stand-in for the desk that dispatches every request at once, for baselines.

``most_inside`` refuses beyond so many requests in the engine, waiting or running, whatever their class: the bound of
vLLM's ``--max-num-queued-reqs`` kind. The engine's own ``order`` and ``max_num_seqs`` do the rest.
"""

from __future__ import annotations

from headway_policies import Dispatch, Effect, Ending, Ledger, Load, Outcome, Reason, Reject, Ticket
from headway_policies.request import Usage


class Bare:
    """The events of a desk, and no decisions."""

    preset = None

    def __init__(self, most_inside: int | None = None) -> None:
        self.ledger = Ledger(())
        self.seats_taken = 0
        self.limit = most_inside or 0
        self._most_inside = most_inside
        self._classes: dict[int, str] = {}

    def arrive(self, ticket: Ticket, now_s: float) -> list[Effect]:
        """Dispatch the request, or refuse it when ``most_inside`` is reached."""
        self.ledger.admit_classes([ticket.class_name])
        counts = self.ledger.classes[ticket.class_name]
        counts.arrived += 1
        if self._most_inside is not None and self.seats_taken >= self._most_inside:
            counts.outcomes[Outcome.REJECTED_FULL] += 1
            counts.refusals[Reason.QUEUE_FULL] += 1
            return [Reject(ticket.id, Reason.QUEUE_FULL, 1)]
        counts.in_flight += 1
        self.seats_taken += 1
        self._classes[ticket.id] = ticket.class_name
        return [Dispatch(ticket.id, 1)]

    def leave(self, ticket_id: int, ending: Ending, now_s: float, usage: Usage | None = None) -> list[Effect]:
        """Count its end."""
        counts = self.ledger.classes[self._classes.pop(ticket_id)]
        counts.in_flight -= 1
        self.seats_taken -= 1
        done = {Ending.COMPLETED: Outcome.COMPLETED, Ending.CANCELLED: Outcome.CANCELLED_RUNNING}
        counts.outcomes[done.get(ending, Outcome.FAILED)] += 1
        return []

    def first_token(self, ticket_id: int, now_s: float) -> list[Effect]:
        """Ignore the event."""
        return []

    def token_batch(self, ticket_id: int, now_s: float) -> list[Effect]:
        """Ignore the event."""
        return []

    def observe(self, load: Load, now_s: float) -> list[Effect]:
        """Ignore the event."""
        return []

    def tick(self, now_s: float) -> list[Effect]:
        """Ignore the event."""
        return []

    def drain(self, now_s: float) -> list[Effect]:
        """No request waits here."""
        return []
