"""The mode of a desk: the preset in force, what blocks dispatch, and the state of the engine."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple

from headway_policies.engine import EngineState
from headway_policies.fallback import Rung, pauses, sheds
from headway_policies.preset import Preset
from headway_policies.request import PriorityClass, Reason, Ticket, Timeouts, shorter


class AdmissionState(Enum):
    """Whether the desk dispatches anything."""

    OPEN = "open"
    PAUSED = "paused"
    DRAINING = "draining"


class Block(StrEnum):
    """A cause for which nothing is dispatched. Each ends by its own end alone, whatever other causes there are."""

    OPERATOR = "operator"
    RECYCLE = "recycle"
    WARMUP = "warmup"
    ENGINE_PAUSED = "engine_paused"
    ENGINE_ASLEEP = "engine_asleep"
    NO_INSTANCE = "no_instance"


#: The blocks that only the engine's own report sets and ends.
ENGINE_BLOCKS = frozenset({Block.ENGINE_PAUSED, Block.ENGINE_ASLEEP})


class Stages(NamedTuple):
    """The time-outs of a class or a ticket; how long it may wait in the queue by all of them, and for its first token
    once it runs, both from its arrival on.
    """

    timeouts: Timeouts
    patience_s: float | None
    first_s: float | None

    @classmethod
    def of(cls, timeouts: Timeouts) -> Stages:
        """The permissions that follow from these time-outs."""
        return cls(timeouts, timeouts.before_first_token_s(), shorter(timeouts.total_s, timeouts.first_token_s))


class Mode:
    """Set by the desk, read by all its parts. ``revision`` counts the presets there have been.

    ``open`` says whether tickets go to the engine, ``closed`` why no new ticket may even wait, None where it may. Both
    are worked out when something changes, and not for each request, as are ``stages``, the time-outs of each class.
    """

    open: bool
    closed: Reason | None

    def __init__(self, preset: Preset) -> None:
        self.revision = 0
        self.draining = False
        self.blocks: frozenset[Block] = frozenset()
        self.engine = EngineState.UP
        self.lost_why = Reason.ENGINE_LOST
        self.in_force: frozenset[Rung] = frozenset()
        self.adopt(preset)
        self._settle()

    # ------------------------------------------------------------------ changes

    def adopt(self, preset: Preset) -> None:
        """Put a preset in force."""
        self.preset = preset
        self.revision += 1
        self.stages = {name: Stages.of(terms.timeouts()) for name, terms in preset.classes.items()}

    def block(self, block: Block) -> None:
        """Dispatch nothing for this cause. A drain stays a drain."""
        self.blocks |= {block}
        self._settle()

    def unblock(self, block: Block) -> None:
        """This cause is over; the operator's ends with the drain."""
        self.blocks -= {block}
        if block is Block.OPERATOR:
            self.draining = False
        self._settle()

    def drain(self) -> None:
        """Admit nothing and dispatch nothing."""
        self.draining = True
        self._settle()

    def fall_back(self, in_force: frozenset[Rung]) -> None:
        """Put these rungs of the fallback ladder in force."""
        self.in_force = in_force
        self._settle()

    def engine_is(self, state: EngineState, lost_why: Reason | None = None) -> None:
        """The engine is in this state; ``lost_why`` where it is lost."""
        self.engine, self.lost_why = state, lost_why or self.lost_why
        self._settle()

    def _settle(self) -> None:
        blocked = self.draining or self.blocks
        self.open = not blocked and self.engine is EngineState.UP and not (self.in_force and pauses(self.in_force))
        self.closed = Reason.DRAINING if self.draining else None
        if self.engine is EngineState.LOST:
            self.closed = self.lost_why

    # ------------------------------------------------------------------ questions

    @property
    def state(self) -> AdmissionState:
        """Draining, else paused while anything blocks dispatch, else open."""
        if self.draining:
            return AdmissionState.DRAINING
        return AdmissionState.PAUSED if self.blocks else AdmissionState.OPEN

    @property
    def engine_up(self) -> bool:
        """Whether the engine is there and responds."""
        return self.engine is EngineState.UP

    def terms(self, ticket: Ticket) -> PriorityClass:
        """The class whose terms hold for a ticket: the default one where the preset does not have its own."""
        preset = self.preset
        return preset.classes.get(ticket.class_name) or preset.classes[preset.default_class]

    def sheds(self, ticket: Ticket) -> bool:
        """Whether a ticket is refused because its class is shed."""
        return bool(self.in_force) and sheds(self.terms(ticket), self.in_force)
