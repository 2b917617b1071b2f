"""What does the desk ask its shell to do?

The desk answers every event with a list of these. The shell carries them out in order and decides nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_policies.request import Reason


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The ticket may go to the engine now, under this preset revision; those of one ``batch`` leave together.

    One that goes ``beside`` belongs to none: it took a seat of the bypass.
    """

    ticket_id: int
    revision: int
    batch: int = 0
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Reject:
    """The ticket was refused, on arrival or while it waited; the engine never had it."""

    ticket_id: int
    reason: Reason
    retry_after_s: int


@dataclass(frozen=True, slots=True)
class Expire:
    """The ticket's time ran out while it waited; the engine never had it."""

    ticket_id: int
    reason: Reason
    retry_after_s: int


@dataclass(frozen=True, slots=True)
class Abort:
    """The ticket is settled although the engine may still have it: stop it there."""

    ticket_id: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Requeue:
    """The engine it was running on is gone, and the ticket waits again, for another Dispatch or its end."""

    ticket_id: int


@dataclass(frozen=True, slots=True)
class Degrade:
    """Serve the ticket with less than it asked for, and say so."""

    ticket_id: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a tick at this time at the latest."""

    at_s: float


Effect = Dispatch | Reject | Expire | Abort | Requeue | Degrade | WakeAt
