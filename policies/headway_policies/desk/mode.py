"""What is in force now: the preset, who is let through, and how the engine stands."""

from __future__ import annotations

from enum import Enum, StrEnum

from headway_policies.engine import EngineState
from headway_policies.fallback import Rung, pauses, sheds
from headway_policies.preset import Preset
from headway_policies.request import PriorityClass, Reason, Ticket


class AdmissionState(Enum):
    """Whether the desk lets anybody through."""

    OPEN = "open"
    PAUSED = "paused"
    DRAINING = "draining"


class Hold(StrEnum):
    """Why nobody is let through for now. Each cause ends by its own end alone, whatever others hold as well."""

    OPERATOR = "operator"
    RECYCLE = "recycle"
    ENGINE_PAUSED = "engine_paused"
    ENGINE_ASLEEP = "engine_asleep"


#: The holds that only the engine's own word sets and ends.
ENGINE_HOLDS = frozenset({Hold.ENGINE_PAUSED, Hold.ENGINE_ASLEEP})


class Mode:
    """Set by the desk, read by whoever decides for it. ``revision`` counts the presets there have been."""

    def __init__(self, preset: Preset) -> None:
        self.revision = 0
        self.draining = False
        self.holds: frozenset[Hold] = frozenset()
        self.engine = EngineState.UP
        self.lost_why = Reason.ENGINE_LOST
        self.in_force: frozenset[Rung] = frozenset()
        self.adopt(preset)

    def adopt(self, preset: Preset) -> None:
        """Put a preset in force."""
        self.preset = preset
        self.revision += 1
        self.timeouts = {name: one.timeouts() for name, one in preset.classes.items()}

    @property
    def state(self) -> AdmissionState:
        """Draining, else paused while anything holds, else open."""
        if self.draining:
            return AdmissionState.DRAINING
        return AdmissionState.PAUSED if self.holds else AdmissionState.OPEN

    @property
    def open(self) -> bool:
        """Whether tickets go to the engine."""
        held = self.draining or self.holds
        return not held and self.engine is EngineState.UP and not (self.in_force and pauses(self.in_force))

    def terms(self, ticket: Ticket) -> PriorityClass:
        """The class whose terms hold for a ticket: the default one where the preset does not know its own."""
        preset = self.preset
        return preset.classes.get(ticket.class_name) or preset.classes[preset.default_class]

    def sheds(self, ticket: Ticket) -> bool:
        """Whether a ticket is refused for what its class is."""
        return bool(self.in_force) and sheds(self.terms(ticket), self.in_force)

    def closed_to(self, ticket: Ticket) -> Reason | None:
        """Why a newcomer may not even wait, whatever room there is."""
        if self.engine is EngineState.LOST:
            return self.lost_why
        if self.draining:
            return Reason.DRAINING
        return Reason.SHED if self.sheds(ticket) else None
