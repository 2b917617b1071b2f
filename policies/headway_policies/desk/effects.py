"""The effects of the desk: what its shell must do.

Every event returns a list of these. The shell carries them out in order and decides nothing itself. Nothing changes an
effect once it is made; the classes are not frozen because a frozen one takes three times as long to make.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_policies.request import Reason


@dataclass(slots=True)
class Dispatch:
    """The ticket may go to the engine now, under this preset revision; tickets of one ``batch`` leave together.

    A ticket that goes ``beside`` belongs to none: it took a seat of the bypass.
    """

    ticket_id: int
    revision: int
    batch: int = 0
    beside: bool = False


@dataclass(slots=True)
class Reject:
    """The ticket was refused, on arrival or while it waited; the engine never had it."""

    ticket_id: int
    reason: Reason
    retry_after_s: int


@dataclass(slots=True)
class Expire:
    """The ticket's time ran out while it waited; the engine never had it."""

    ticket_id: int
    reason: Reason
    retry_after_s: int


@dataclass(slots=True)
class Abort:
    """The ticket is settled although the engine may still have it: stop it there."""

    ticket_id: int
    reason: Reason


@dataclass(slots=True)
class Requeue:
    """The ticket waits again, since its engine is gone, for another Dispatch or its end."""

    ticket_id: int


@dataclass(slots=True)
class Recall:
    """The ticket gives its seats to a more urgent one before its first token: stop it in the engine. The ticket waits
    again, for another Dispatch or its end.
    """

    ticket_id: int


@dataclass(slots=True)
class Degrade:
    """Serve the ticket with less than it asked for, and say so."""

    ticket_id: int
    max_tokens: int


@dataclass(slots=True)
class WakeAt:
    """Send a tick at this time at the latest."""

    at_s: float


Effect = Dispatch | Reject | Expire | Abort | Requeue | Recall | Degrade | WakeAt
