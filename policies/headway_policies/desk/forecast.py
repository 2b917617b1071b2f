"""The predictors of a desk: what is expected of a ticket, and how it turned out."""

from __future__ import annotations

from headway_policies.desk.books.record import Record
from headway_policies.prediction import Accuracy, Demand, LengthEstimate, PaceSpread, SizeStats, WaitEstimate
from headway_policies.request import Ticket, Usage

#: A prediction that has been wrong by more than this share refuses nothing.
_TRUSTED_RATIO = 0.5


class Forecast:
    """The predictors of one desk. Their memory outlives every switch of a preset.

    Under another limit an engine has another speed: then the times that it took count little from there on.
    """

    def __init__(self) -> None:
        self.sizes = SizeStats()
        self.lengths = LengthEstimate()
        self.demand = Demand()
        self.pace = PaceSpread()
        self._waits = WaitEstimate()

    def other_limit(self) -> None:
        """Another limit is in force."""
        self._waits.fade()
        self.demand.fade()
        self.pace.forget()

    def wait_s(self, seats_ahead: int, taken: int, limit: int) -> float | None:
        """The wait of a new ticket behind this many seats; None while nothing is known."""
        return self._waits.wait_s(seats_ahead, max(0, limit - taken), limit)

    def first_token_s(self, ticket: Ticket) -> float | None:
        """An optimistic time from the dispatch of a ticket to its first token; None while nothing is known."""
        return self._waits.first_token_s(ticket.class_name, ticket.prompt_tokens)

    def freed_per_s(self, limit: int) -> float:
        """The seats that come free in a second while all of ``limit`` are taken; 0 while nothing is known."""
        return self._waits.freed_per_s(limit)

    def turnover_per_s(self, limit: int) -> float | None:
        """The seats that come free in a second, from however little is known; None until a seat has come free."""
        return self._waits.turnover_per_s(limit)

    def waited(self, predicted_s: float, waited_s: float) -> None:
        """A wait is over: what was predicted, and what it was."""
        self._waits.waited(predicted_s, waited_s)

    def first_token(self, record: Record, now_s: float) -> None:
        """The first token is here."""
        ticket = record.ticket
        self._waits.learn_first_token(ticket.class_name, ticket.prompt_tokens, now_s - record.dispatched_s)

    def seats_free(self, record: Record, now_s: float) -> None:
        """The ticket is about to give up its last seat."""
        self._waits.ended(record.seats, record.seat_s, now_s)
        self.demand.ended(record.queue_class, record.seats, record.seat_s)

    def likely_first_token_s(self, ticket: Ticket) -> float | None:
        """A time within which the first token probably comes after the dispatch; None while nothing is known."""
        return self._waits.likely_first_token_s(ticket.class_name, ticket.prompt_tokens)

    @property
    def waits_known(self) -> bool:
        """Whether the predictions of waits were within half of the real waits, or are untried."""
        return self._waits.accuracy().error_ratio <= _TRUSTED_RATIO

    def completed(self, record: Record, usage: Usage, now_s: float) -> None:
        """A request ran to its end."""
        ticket = record.ticket
        self.lengths.ended(ticket, usage)
        if record.first_s is not None and ticket.seats == 1 and not record.again:
            ended_s = now_s if record.freed_s is None else record.freed_s  # a program may read on for long
            self.pace.ended(usage.output_tokens, ended_s - record.first_s)
        self.sizes.add(ticket.seats, usage)

    def accuracy(self) -> dict[str, Accuracy]:
        """The accuracy of the predictions: of output lengths, waits in the queue, and first tokens."""
        return {
            "output_tokens": self.lengths.accuracy(),
            "queue_wait": self._waits.accuracy(),
            "first_token": self._waits.first_token_accuracy(),
        }
