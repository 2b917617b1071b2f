"""What is in force now: the preset, who is let through, and how the engine stands."""

from __future__ import annotations

from enum import Enum

from headway_policies.classes import PriorityClass
from headway_policies.degrading import pauses, sheds
from headway_policies.fallback import Rung
from headway_policies.outcome import Reason
from headway_policies.preset import Preset
from headway_policies.standing import Standing
from headway_policies.ticket import Ticket


class State(Enum):
    """Whether the desk lets anybody through."""

    OPEN = "open"
    PAUSED = "paused"
    DRAINING = "draining"


class Regime:
    """Set by the desk, read by whoever decides for it. ``revision`` counts the presets there have been."""

    def __init__(self, preset: Preset) -> None:
        self.revision = 0
        self.state = State.OPEN
        self.engine = Standing.UP
        self.lost_why = Reason.ENGINE_LOST
        self.in_force: frozenset[Rung] = frozenset()
        self.adopt(preset)

    def adopt(self, preset: Preset) -> None:
        """Put a preset in force."""
        self.preset = preset
        self.revision += 1
        self.timeouts = {name: one.timeouts() for name, one in preset.classes.items()}

    @property
    def open(self) -> bool:
        """Whether tickets go to the engine."""
        return self.state is State.OPEN and self.engine is Standing.UP and not (self.in_force and pauses(self.in_force))

    def terms(self, ticket: Ticket) -> PriorityClass:
        """The class whose terms hold for a ticket: the default one where the preset does not know its own."""
        preset = self.preset
        return preset.classes.get(ticket.class_name) or preset.classes[preset.default_class]

    def sheds(self, ticket: Ticket) -> bool:
        """Whether a ticket is refused for what its class is."""
        return bool(self.in_force) and sheds(self.terms(ticket), self.in_force)

    def closed_to(self, ticket: Ticket) -> Reason | None:
        """Why a newcomer may not even wait, whatever room there is."""
        if self.engine is Standing.LOST:
            return self.lost_why
        if self.state is State.DRAINING:
            return Reason.DRAINING
        return Reason.SHED if self.sheds(ticket) else None
