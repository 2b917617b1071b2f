"""The record of one ticket that is here, and the time at which it has run too long."""

from __future__ import annotations

from dataclasses import dataclass

from headway_policies.desk.books.transitions import Phase
from headway_policies.queueing import Lane
from headway_policies.request import Reason, Ticket, Timeouts, Usage


@dataclass(slots=True)
class Record:
    """A ticket with its time-outs, its place and its history. Only ``lifecycle`` changes a record.

    ``queue_class`` is the class in whose queue it waits: another than its own after a switch to a preset without that
    one. ``queue_due_s`` is when it has waited too long, None for never. ``granted`` is the number of seats it was
    given, ``seats`` how many of them it occupies yet, ``sequences`` how many sequences of it the engine has: more than
    seats where it is wider than the limit. ``left`` says that only those sequences are left of it.
    ``first_s`` and ``token_s`` are the times of its first token and of the last one that was reported.
    It has its seats since ``seated_s``, or had them until ``freed_s``, for ``seat_s`` in all. ``again`` says that it
    has taken seats once more after it had none, as in a tool turn.
    ``beside`` says that it runs beside the batch, on a seat of the bypass. ``charged`` says that its order has booked
    the expected tokens and needs the real ones. ``crash`` is the number of the last crash it was running at. ``late``
    says that it waits behind the others of its class, ``recalled`` that it has made room once.
    """

    ticket: Ticket
    timeouts: Timeouts
    lane: Lane
    queue_class: str
    expected_tokens: float
    queue_due_s: float | None
    phase: Phase = Phase.WAITING
    predicted_wait_s: float | None = None
    seats: int = 0
    granted: int = 0
    sequences: int = 0
    left: bool = False
    dispatched_s: float = 0.0
    seated_s: float = 0.0
    seat_s: float = 0.0
    freed_s: float | None = None
    again: bool = False
    first_s: float | None = None
    token_s: float | None = None
    revision: int = 0
    charged: bool = False
    beside: bool = False
    crash: int | None = None
    late: bool = False
    recalled: bool = False

    def seated(self, now_s: float) -> None:
        """Note the time at which the ticket takes seats."""
        self.seated_s, self.again = now_s, self.again or self.freed_s is not None

    def freed(self, now_s: float) -> None:
        """Note the time at which the ticket has given back its last seat."""
        self.seat_s += now_s - self.seated_s
        self.freed_s = now_s

    def charge(self) -> None:
        """Charge the ticket's order with the tokens that are expected of it."""
        self.lane.order.charge(self.ticket, self.queue_class, self.expected_tokens)
        self.charged = True

    def uncharge(self) -> None:
        """Undo the charge of a ticket that waits again, of which its order has served nothing."""
        if self.charged:
            self.lane.order.correct(self.ticket, self.queue_class, -self.expected_tokens)
        self.charged = False

    def settle(self, usage: Usage | None) -> None:
        """Correct the charge by the tokens used. The expected tokens stand where a started request reports no usage."""
        if not self.charged:
            return
        more_tokens = 0.0
        if usage is not None or self.token_s is None:
            used = usage or Usage(self.ticket.seats * self.ticket.prompt_tokens, 0)
            more_tokens = used.prompt_tokens + used.output_tokens - self.expected_tokens
        self.lane.order.correct(self.ticket, self.queue_class, more_tokens)

    def run_due(self) -> tuple[float, Reason] | None:
        """The time when the ticket has run too long, and the time-out that ends it; None for never."""
        arrived_s, own = self.ticket.arrived_s, self.timeouts
        dues: list[tuple[float, Reason]] = []
        if own.total_s is not None:
            dues.append((arrived_s + own.total_s, Reason.TOTAL_TIMEOUT))
        if self.token_s is None and own.first_token_s is not None:
            dues.append((arrived_s + own.first_token_s, Reason.FIRST_TOKEN_TIMEOUT))
        if self.token_s is not None and own.stall_s is not None and self.seats:  # else the engine owes no token
            dues.append((self.token_s + own.stall_s, Reason.STALL_TIMEOUT))
        return min(dues, default=None)
