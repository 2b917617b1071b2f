"""A desk with a clock of its own, tickets numbered by arrival, and an oracle that follows every event."""

from __future__ import annotations

from typing import Any

from desk_oracle import Oracle

from headway_policies import Desk, Dispatch, Effect, Ending, Preset, Ticket, WakeAt
from headway_policies.desk import DeskReading


class WatchedDesk:
    """Events by name; each answers with its effects and is checked against the invariants."""

    def __init__(self, preset: Preset, ceiling: int | None = None) -> None:
        self.desk = Desk(preset, ceiling=ceiling)
        self.oracle = Oracle(self.desk)
        self.now_s = 0.0
        self.arrived = 0

    @property
    def reading(self) -> DeskReading:
        """How the desk stands now."""
        return self.desk.read(self.now_s)

    def comes(self, name: str = "normal", **more: Any) -> list[Effect]:
        """A ticket arrives; ``more`` are further fields of it."""
        self.arrived += 1
        ticket = Ticket(self.arrived, name, self.now_s, **more)
        self.oracle.arrived(ticket)
        return self.does("arrive", ticket)

    def leaves(self, ticket_id: int, ending: Ending = Ending.COMPLETED, *, sequences: int = 0) -> list[Effect]:
        """A ticket ends; the engine still has so many sequences of it."""
        self.oracle.left(ticket_id, ending, sequences)
        return self.does("leave", ticket_id, ending, sequences=sequences)

    def holds(self, ticket_id: int, seats: int) -> list[Effect]:
        """The engine reports how many seats a ticket holds."""
        self.oracle.reseated(ticket_id, seats, self.now_s)
        return self.does("reseat", ticket_id, seats)

    def token(self, ticket_id: int, event: str = "first_token") -> list[Effect]:
        """The engine produces for a ticket."""
        self.oracle.token(ticket_id, self.now_s)
        return self.does(event, ticket_id)

    def does(self, event: str, *arguments: object, **more: object) -> list[Effect]:
        """Any other event, with ``now_s`` put last."""
        if event == "tick":
            self.oracle.wake_s = None
        if event == "engine_lost":
            self.oracle.engine_lost()
        if event == "engine_restarting":
            self.oracle.engine_restarting(*arguments)  # type: ignore[arg-type]  # a set of ids
        effects: list[Effect] = getattr(self.desk, event)(*arguments, self.now_s, **more)
        self.oracle.follow(effects, self.now_s)
        return unbatched(effects)

    def passes(self, for_s: float) -> list[Effect]:
        """Let time pass, with a tick whenever the desk asked for one, and one at the end."""
        end_s, effects = self.now_s + for_s, []
        while self.oracle.wake_s is not None and self.oracle.wake_s < end_s:
            self.now_s = max(self.now_s, self.oracle.wake_s)
            effects += self.does("tick")
        self.now_s = end_s
        while True:
            effects += self.does("tick")
            if self.oracle.wake_s is None or self.oracle.wake_s > self.now_s:
                break
        self.oracle.check(self.now_s)
        return effects

    def counts(self, name: str = "normal") -> tuple[int, int, int, dict[str, int]]:
        """Arrived, queued, in flight, outcomes."""
        one = self.desk.ledger.classes[name]
        return one.arrived, one.queued, one.in_flight, {str(key): number for key, number in one.outcomes.items()}


def deeds(effects: list[Effect]) -> list[Effect]:
    """The effects without the wish to be woken, and without the number of the batch."""
    return [effect for effect in unbatched(effects) if not isinstance(effect, WakeAt)]


def unbatched(effects: list[Effect]) -> list[Effect]:
    """The effects without the number of the batch."""
    return [Dispatch(one.ticket_id, one.revision) if isinstance(one, Dispatch) else one for one in effects]


def ids(effects: list[Effect]) -> list[int]:
    """The tickets that the effects are about."""
    return [effect.ticket_id for effect in effects if not isinstance(effect, WakeAt)]


def dispatched(effects: list[Effect]) -> list[int]:
    """The dispatched tickets."""
    return [effect.ticket_id for effect in effects if isinstance(effect, Dispatch)]
